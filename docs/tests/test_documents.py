"""Every example of every README and of docs/ runs as it stands."""

from __future__ import annotations

from pathlib import Path
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig

import pytest

from wlk_conformance.testing.digits import clip_path

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = ("README.md", "docs/*.md", "*/README.md", "plugins/*/README.md", "examples/*/README.md")
DOCUMENTS = sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)})
LINKING = sorted({*DOCUMENTS, *ROOT.glob("*.md"), *ROOT.glob("tools/*/README.md")})
COMMANDS = ("wlk-core", "wlk-conformance", "wlk-bench")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Blocks that need the network, a microphone or the like.  The mark is not in the block, because zsh
# passes comments that are typed as arguments.
NEEDY = re.compile(r"^<!-- needs: [^\n]* -->\n```\w+\n.*?^```$", re.MULTILINE | re.DOTALL)
SELF_CONTAINED = (  # pages that a reader may begin with
    *("README.md", "docs/first-transcript.md", "docs/first-service.md"),
    *("docs/serve.md", "docs/command-line.md", "serve/README.md"),
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")


def name_of(document):
    """Return a document's path in the project."""
    return str(document.relative_to(ROOT))


def blocks(language):
    """Return (document and number, text) of every block in *language*."""
    found = []
    for document in DOCUMENTS:
        matches = FENCE.findall(NEEDY.sub("", document.read_text(encoding="utf-8")))
        texts = [text for kind, text in matches if kind == language]
        found += [pytest.param(t, id=f"{name_of(document)}-{i}") for i, t in enumerate(texts, 1)]
    return found


def commands():
    """Return every command line of ours that needs no network and no device."""
    lines = [
        pytest.param(line, id=line)
        for parameter in blocks("sh")
        for line in parameter.values[0].splitlines()
        if line.startswith(COMMANDS)
        and not line.endswith(("# network", "# microphone", "# server"))
    ]
    return list({line.id: line for line in lines}.values())


@pytest.fixture
def folder(tmp_path):
    """Return a folder that holds the recording of the examples."""
    shutil.copy(clip_path("demo"), tmp_path / "demo.flac")
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples/demo.wav", tmp_path / "examples")
    return tmp_path


def run(arguments, folder):
    """Run a command to its end."""
    return subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks("python"))
def test_a_python_example_runs(code, folder):
    """The block is a script that ends with status 0 and prints something, where it prints."""
    done = run([sys.executable, "-W", "error", "-c", code], folder)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() or "print" not in code


@pytest.mark.parametrize("name", SELF_CONTAINED)
def test_a_page_writes_the_recording_that_it_uses(name):
    """The first line with the recording is the command that writes it."""
    code = "".join(text for _, text in FENCE.findall((ROOT / name).read_text(encoding="utf-8")))
    first = next(line for line in code.splitlines() if "demo.flac" in line)

    assert re.match(r"wlk-core demo .*--save demo\.flac", first)


@pytest.mark.slow
@pytest.mark.parametrize("line", commands())
def test_a_command_runs(line, folder):
    """The line ends with status 0 and a result."""
    name, *arguments = shlex.split(line, comments=True)
    done = run([str(Path(sysconfig.get_path("scripts")) / name), *arguments], folder)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() or "--output" in line


def test_the_tests_of_an_application_pass(folder):
    """The page shows how to test an application without a model."""
    (block,) = (each for each in blocks("python") if each.id.startswith("docs/testing.md"))
    (folder / "test_app.py").write_text(block.values[0], encoding="utf-8")
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], folder)

    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.slow
def test_python_examples_pass_a_strict_type_checker(folder):
    """What users copy from a page is typed, and so are the names it imports."""
    pytest.importorskip("mypy", reason="pip install --group types")
    for number, block in enumerate(blocks("python")):
        (folder / f"example_{number}.py").write_text(block.values[0], encoding="utf-8")
    # With the cache of the session `types`, because checking all of ours again takes half a minute.
    shared = ("--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache")
    done = run([sys.executable, "-m", "mypy", "--strict", *shared, "."], folder)

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_site_has_every_page_as_markdown_too(tmp_path):
    """It is built strictly; generated parts are filled in, and llms.txt lists the pages."""
    pytest.importorskip("mkdocs", reason="pip install --group docs")
    site = tmp_path / "site"
    done = run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", site], ROOT)

    assert done.returncode == 0, done.stderr
    listed = LINK.findall((site / "llms.txt").read_text(encoding="utf-8"))
    assert sorted(path.name for path in ROOT.glob("docs/*.md")) == listed
    text = "".join((site / name).read_text(encoding="utf-8") for name in listed)
    assert "<!-- options -->" not in text
    assert "## voxtral-mlx" in text


def test_the_site_is_built_without_the_packages_of_the_project(monkeypatch):
    """`pip install --group docs` is enough; the page of options then says what is missing."""
    monkeypatch.setitem(sys.modules, "wlk_core.registry", None)
    site = runpy.run_path(str(ROOT / "tools/site.py"))

    assert "no package of the project was installed" in site["options"]()


def test_the_pages_of_the_contract_are_current():
    """They have every rule and every faulty backend, in the words of the suite and its tests."""
    pages = runpy.run_path(str(ROOT / "tools/contract_pages.py"))

    assert [*pages["outdated"]()] == [], f"run: {pages['COMMAND']}"


@pytest.mark.parametrize("document", LINKING, ids=name_of)
def test_links_lead_somewhere(document):
    """A link to a file of the project finds it."""
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target
