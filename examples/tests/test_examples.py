"""The examples do what their documentation promises, run as a user would run them."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Any

import pytest
from websockets.sync.client import connect

from wlk_conformance.testing import load_clip
from wlk_conformance.testing.digits import clip_path
from wlk_core import WLKError, load_backend

EXAMPLES = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sysconfig.get_path("scripts"))
ANSWERS = {"name": "my-ears", "summary": "Ears, streamed"}
MATCHER = EXAMPLES.parent / "conformance/tests/fakes/wlk_fakes_matcher.py"
MATCHING_ENGINE = '''"""Digits by their spectra, every seventh of them wrong."""

from __future__ import annotations

from wlk_core.plugins import ModelNotFoundError
from wlk_my_ears.matcher import transcribe


class Engine:
    @classmethod
    def load(cls, model):
        if model != "small":
            raise ModelNotFoundError(f"my-ears has no model {model!r}; use: --model small")
        return cls()

    def transcribe(self, audio, *, prompt, language, loudness=0.02):
        del loudness
        return transcribe(list, audio, prompt=prompt, language=language)
'''
#: The files that wlk-vosk looks for, without their contents.
VOSK_FILES = dict.fromkeys(
    ("am/final.mdl", "conf/mfcc.conf", "conf/model.conf", "graph/Gr.fst"), ""
)

pytestmark = pytest.mark.slow


def run(*command: Any, cwd: Any, **env: Any) -> Any:
    """Run a command and return its output; a failure shows all output."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **{name: str(value) for name, value in env.items()}},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    return done.stdout


def make(folder: Path, **answers: Any) -> Any:
    """Generate *folder* from the template; return it and the folder where it is installed."""
    copier = pytest.importorskip("copier")
    copier.run_copy(str(EXAMPLES / "template"), folder, data=answers, defaults=True, quiet=True)
    site = folder.parent / "site"
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    run(sys.executable, "-m", "pip", "install", *offline, "--target", site, folder, cwd=folder)
    return folder, site


def assert_is_well_kept(folder: Path, site: Path) -> None:
    """Check a generated project with its own configuration of ruff and mypy."""
    pytest.importorskip("mypy")
    # One cache for all generated projects, because most of the time is that of their dependencies.
    mypy = (sys.executable, "-m", "mypy", "--cache-dir", folder.parents[1] / "mypy")

    types = run(*mypy, "src", "tests", cwd=folder, PYTHONPATH=site)
    style = run(sys.executable, "-m", "ruff", "check", ".", cwd=folder)
    form = run(sys.executable, "-m", "ruff", "format", "--check", ".", cwd=folder)

    assert types.startswith("Success: no issues found in ")
    assert style == "All checks passed!\n"
    assert form.endswith(" files already formatted\n")


@pytest.fixture(scope="module", params=[False, True], ids=["called", "native"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a generated project, and the folder where it is installed."""
    folder = tmp_path_factory.mktemp("template") / "my-backend"
    return make(folder, **ANSWERS, native=request.param)


def report_of(name: str, folder: Path, *options: str, **env: Any) -> Any:
    """Return the report of wlk-conformance on a backend."""
    report = folder / f"{name}.json"
    run(SCRIPTS / "wlk-conformance", name, *options, "--report", report, cwd=folder, **env)
    return json.loads(report.read_text(encoding="utf-8"))


def test_hello_keeps_the_contract(tmp_path: Path) -> None:
    """The tests of wlk-hello pass, run as its author would run them."""
    output = run(sys.executable, "-m", "pytest", "-q", EXAMPLES / "wlk-hello/tests", cwd=tmp_path)

    assert " passed" in output


def test_a_file_becomes_timed_words(tmp_path: Path) -> None:
    """The script prints a line with the start, end and text of each word."""
    script = EXAMPLES / "transcribe_file.py"

    output = run(sys.executable, script, clip_path("demo"), "sherpa", "digits", cwd=tmp_path)

    words = [line.split() for line in output.splitlines()]
    expected = load_clip("demo").words
    assert [text for _, _, text in words] == [word.text.strip() for word in expected]
    for word, (start, end, _) in zip(expected, words, strict=True):
        assert float(start) == pytest.approx(word.start, abs=0.3)
        assert float(start) < float(end)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, r"lacks am/final.mdl, .*--model"),
        (VOSK_FILES, r"Vosk could not load .*--model"),
        ({**VOSK_FILES, "conf/mfcc.conf": "--sample-frequency=44100"}, r"needs .* 44100 samples"),
    ],
    ids=["an empty directory", "a damaged model", "a model of music"],
)
def test_an_unusable_model_of_vosk_is_refused(files: Any, expected: str, tmp_path: Path) -> None:
    """The error states what was expected, in one line."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    with pytest.raises(WLKError, match=rf"^.*{expected}.*$"):
        load_backend("vosk", str(tmp_path))


def test_vosk_asks_for_a_model() -> None:
    """It has no default, because no model is downloaded."""
    with pytest.raises(WLKError, match=r"^vosk has no default model; unpack .* --model DIR$"):
        load_backend("vosk")


def test_the_template_complies_before_its_engine_is_written(made: Any, tmp_path: Path) -> None:
    """The generated project installs without a network, is listed and is compliant."""
    listed = run(SCRIPTS / "wlk-core", "backends", "--json", cwd=tmp_path, PYTHONPATH=made[1])
    report = report_of("my-ears", tmp_path, PYTHONPATH=made[1])

    assert ANSWERS["summary"] in listed
    assert (report["verdict"], report["distribution"]) == ("compliant", "wlk-my-ears")
    tested = sum(rule["outcome"] != "n/a" for rule in report["rules"])
    page = (EXAMPLES.parent / "docs/writing-a-backend.md").read_text(encoding="utf-8")
    assert f"{tested} of {len(report['rules'])} rules tested" in page


def test_the_tests_of_the_engine_hold_for_any(made: Any, tmp_path: Path) -> None:
    """The tests do not depend on the toy, so an author who replaces the engine keeps them."""
    folder, site = tmp_path / "project", tmp_path / "site"
    shutil.copytree(made[0], folder)
    shutil.copytree(made[1], site)
    engine = site / "wlk_my_ears/engine.py"
    toy = engine.read_text(encoding="utf-8")
    engine.write_text(toy.replace('" word"', '" tick"'))

    chosen = "test_engine or test_the_spec_is_valid"  # the report above has the other rules
    command = (sys.executable, "-m", "pytest", "-q", "-k", chosen)
    output = run(*command, cwd=folder, PYTHONPATH=site)

    assert " passed" in output
    assert '" word"' in toy


@pytest.mark.parametrize("made", [False], ids=["called"], indirect=True)
def test_a_mediocre_engine_in_the_template_complies(made: Any, tmp_path: Path) -> None:
    """A backend with another engine.py and its model declared complies at 15 % word errors."""
    site = tmp_path / "site"
    shutil.copytree(made[1], site)
    package = site / "wlk_my_ears"
    shutil.copy(MATCHER, package / "matcher.py")
    (package / "engine.py").write_text(MATCHING_ENGINE, encoding="utf-8")
    plugin = package / "plugin.py"
    declared = plugin.read_text(encoding="utf-8")
    for toy, own in (
        ('models={"toy": "bundled"}', 'models={"small": "bundled"}'),
        ('default_model="toy"', 'default_model="small"'),
        ("digit_models=()", 'digit_models=("small",), bounds={"wer": 0.25}'),
        ("languages=()", 'languages=("en",)'),
    ):
        assert toy in declared
        declared = declared.replace(toy, own)
    plugin.write_text(declared, encoding="utf-8")

    report = report_of("my-ears", tmp_path, "--speech", PYTHONPATH=site)

    rules = {rule["id"]: rule for rule in report["rules"]}
    (rate,) = re.findall(r"WER ([\d.]+) %", rules["QUAL-01"]["detail"])
    assert report["verdict"] == "compliant"
    assert {rules[rule]["outcome"] for rule in ("QUAL-01", "QUAL-04", "TIME-05")} == {"pass"}
    assert 8 < float(rate) < 22


def test_the_template_is_well_kept(made: Any) -> None:
    """It passes its own configuration of ruff and mypy, and its workflow runs the suite."""
    assert_is_well_kept(*made)
    workflow = (made[0] / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert "python -m pip install wlk-core wlk-conformance pytest\n" in workflow
    assert "wlk-conformance my-ears --speech --report speech.json\n" in workflow


@pytest.fixture(scope="module")
def made_protocol(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a generated protocol project, and the folder where it is installed."""
    folder = tmp_path_factory.mktemp("template") / "my-protocol"
    return make(folder, kind="protocol", name="hello", summary="clients that say hello: /hello")


def test_a_protocol_of_the_template_keeps_its_rules(made_protocol: Any) -> None:
    """The command of the suite and the tests find no broken rule, and its style is clean."""
    folder, site = made_protocol
    suite = (sys.executable, "-m", "wlk_conformance.protocols", "tests.test_rules:CLIENT")

    printed = run(*suite, cwd=folder, PYTHONPATH=site)
    tests = run(sys.executable, "-m", "pytest", "-q", cwd=folder, PYTHONPATH=site)

    assert [line.split()[1] for line in printed.splitlines()] == ["kept"] * 5
    assert "5 passed" in tests
    assert_is_well_kept(folder, site)


def test_a_protocol_of_the_template_is_served(made_protocol: Any, tmp_path: Path) -> None:
    """Once installed, `wlk-serve` serves it, with the words of the model."""
    model = ("--backend", "faster-whisper", "--model", "digits", "--language", "en")
    expected = run(SCRIPTS / "wlk-core", "transcribe", clip_path("demo"), *model, cwd=tmp_path)
    audio = (load_clip("demo").audio * 32_767).astype("<i2").tobytes()
    server = subprocess.Popen(
        [sys.executable, "-m", "wlk_serve", *model, "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(made_protocol[1])},
        stderr=subprocess.PIPE,
        text=True,
    )
    with server:
        try:
            assert server.stderr is not None
            ready = server.stderr.readline()
            netloc = re.findall(r"http://(\S+)", ready)
            assert netloc, ready
            with connect(f"ws://{netloc[0]}/hello") as client:
                for part in (audio[start : start + 3200] for start in range(0, len(audio), 3200)):
                    client.send(part)
                client.send("end")
                messages = [json.loads(message) for message in client]
        finally:
            server.terminate()

    assert messages[0] == {"hello": "send audio"}
    assert "".join(m.get("text", "") for m in messages).split() == expected.split()


def test_the_page_for_authors_of_protocols_shows_the_template(made_protocol: Any) -> None:
    """docs/protocols.md shows the code of the template, except for the imports of its routes."""
    page = (EXAMPLES.parent / "docs/protocols.md").read_text(encoding="utf-8")
    package = made_protocol[0] / "src/wlk_protocol_hello"
    _, _, declaration = (package / "plugin.py").read_text(encoding="utf-8").partition("\n\n")
    _, _, protocol = (package / "routes.py").read_text(encoding="utf-8").partition("\n\nclass ")

    assert f"```python\n{declaration}```\n" in page
    assert f"\n\nclass {protocol}```\n" in page
    assert '"protocol.hello" = "wlk_protocol_hello.plugin"\n' in page


@pytest.mark.parametrize("name", ["Ears", "1ears", "my ears", ""])
def test_a_name_that_no_backend_can_have_is_refused(name: str, tmp_path: Path) -> None:
    """The template refuses names that do not match [a-z][a-z0-9-]*, and writes nothing."""
    copier = pytest.importorskip("copier")
    made, answers = tmp_path / "made", {**ANSWERS, "name": name}

    with pytest.raises(ValueError, match="name"):
        copier.run_copy(str(EXAMPLES / "template"), made, data=answers, defaults=True, quiet=True)

    assert not made.exists()
