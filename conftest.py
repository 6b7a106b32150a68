"""
Settings and fixtures that several test folders share.

They are hypothesis, streams of coded audio, plugins that are installed for one test, and command
lines with one backend.  Fixtures import what they need, because not every folder needs wlk-core.
"""

from __future__ import annotations

import importlib
from importlib import metadata
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
from textwrap import dedent
from typing import NamedTuple

from hypothesis import settings
import pytest

# No deadline, because a slow test on a busy machine is not a failure; the same examples on every
# run, because a failure must be reproducible.
settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def coded():
    """Return the module of coded audio; skip the test if wlk-conformance is not installed."""
    return pytest.importorskip("wlk_conformance.testing.coded_audio")


@pytest.fixture(scope="session")
def script(coded):
    """Return the coded tokens of `speech`."""
    return [coded.CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]


@pytest.fixture
def open_coded():
    """Return a function that opens a stream of the scripted backend; see EngineFaults."""
    from wlk_conformance import EngineFaults  # noqa: PLC0415 -- as above
    from wlk_conformance.scripted import ScriptedBackend  # noqa: PLC0415 -- as above

    def open_coded(fail_at=(), before_call=None):
        backend = ScriptedBackend(fail_before=fail_at)
        EngineFaults.of(backend.engine_calls).before_call = before_call
        return backend.create_processor()

    return open_coded


@pytest.fixture
def speech(coded, script):
    """Return ten seconds of coded audio, float32[n]."""
    return coded.encode(script, cells=126)


@pytest.fixture
def words(coded, script):
    """Return the words of `speech` with their times."""
    from wlk_conformance.scripted import DIGIT_WORDS  # noqa: PLC0415 -- as above

    return coded.script_words(script, DIGIT_WORDS)


@pytest.fixture
def text(words):
    """Return the text of `speech`."""
    return "".join(word.text for word in words).strip()


_HEAD = """
from types import SimpleNamespace

from wlk_core.plugins import AnnotatorSpec, BackendSpec, Option, PluginSpec, hookimpl

def spec(name, **more):
    declared = {"name": name, "api": 1, "summary": "a toy", "load": f"{__name__}:load", **more}
    return BackendSpec(**declared)

def load(spec, model, **options):
    return SimpleNamespace(model=model, options=options)
"""
_TOY = """
TOY = spec(
    "toy", summary="reads coded audio", load="toy_engine:load", preference=1,
    capabilities=["hypothesis", "word-times", "probabilities", "language-forcing"],
    languages=["en", "de"], policies=["local-agreement", "alignatt"],
    models={"digits": "bundled"}, default_model="digits",
    options=[
        Option(
            name="tick_seconds", type=float, default=1.0, minimum=0.1, maximum=10.0,
            help="seconds of audio between two hypotheses", scope="stream",
        ),
        Option(
            name="border_seconds", type=float, default=0.5, help="seconds without final words",
            scope="stream", policies=["alignatt"],
        ),
    ],
)

@hookimpl
def wlk_backends():
    return [TOY]
"""
_TOY_ENGINE = Path(__file__).parent / "core/tests/cli/toy_engine.py"
_NEEDY = """
@hookimpl
def wlk_backends():
    return [spec(
        "needy", summary="needs much", load="needy_engine:load",
        languages=["en", "de"], policies=["alignatt", "local-agreement"],
        models={"digits": "bundled", "big": "a/big"}, default_model="big",
        requires={"no-such-framework": "pip install no-such-framework"},
        options=[Option(name="device", default="cpu", choices=("cpu", "cuda"), help="device")],
    )]
"""


class Site:
    """A folder of distributions that are installed for one test: modules and their metadata."""

    def __init__(self, folder):
        self.folder = folder
        self.distributions = []  #: of the environment, which the registry sees too

    def install(self, distribution, names, code="", *, module=None, version="0.1.0"):
        """Install a plugin whose module is *code*, offering entry points called *names*."""
        module = module or f"{distribution.replace('-', '_')}_plugin"
        (self.folder / f"{module}.py").write_text(_HEAD + dedent(code), encoding="utf-8")
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(f"{head}Summary: For tests\n", encoding="utf-8")
        lines = "".join(f"{name} = {module}\n" for name in names)
        (info / "entry_points.txt").write_text(f"[wlk.plugins]\n{lines}", encoding="utf-8")

    def offer(self, distribution, *names, **fields):
        """Install a plugin that declares backends called *names*, each with *fields*."""
        specs = "".join(f"    yield spec({name!r}, **{fields!r})\n" for name in names)
        self.install(distribution, names, f"@hookimpl\ndef wlk_backends():\n{specs}")

    def install_toy(self):
        """Install the backend "toy", which reads coded audio."""
        self.install("wlk-toy", ["toy"], _TOY)
        shutil.copy(_TOY_ENGINE, self.folder)

    @property
    def entry_points(self):
        """The plugins of this site and, of the environment, of `distributions` alone."""
        found = [*metadata.distributions(path=[str(self.folder)]), *self.distributions]
        points = [point for distribution in found for point in distribution.entry_points]
        return [point for point in points if point.group == "wlk.plugins"]

    def registry(self, **options):
        """Return a registry of `entry_points`."""
        from wlk_core.registry import Registry  # noqa: PLC0415 -- as above

        return Registry(self.entry_points, **options)

    @property
    def environment(self):
        """The environment of a process that sees these plugins too."""
        import wlk_core  # noqa: PLC0415 -- as above

        source = Path(wlk_core.__file__).parents[1]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), str(source)])}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Put an empty site on the import path; its modules are unloaded afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delenv("WLK_STRICT_PLUGINS", raising=False)
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if name.endswith(("_plugin", "_framework", "_engine")):
            del sys.modules[name]


@pytest.fixture
def toy_engine(site):
    """Return the module of the backend "toy" of a site that has it."""
    del site  # which put it on the import path
    return importlib.import_module("toy_engine")


@pytest.fixture
def install_needy(site):
    """Return a function that installs a backend whose loader runs a statement, or fails."""

    def install(statement="import no_such_framework"):
        site.install("wlk-needy", ["needy"], _NEEDY)
        module = f"def load(spec, model, **options):\n    {statement}\n"
        (site.folder / "needy_engine.py").write_text(module, encoding="utf-8")

    return install


@pytest.fixture
def quiet_environment(monkeypatch, tmp_path):
    """Isolate a test from the user's caches, configuration and environment variables."""
    for name in os.environ:
        if name.startswith("WLK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "wlk"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("HF_HUB_OFFLINE", "WLK_STRICT_PLUGINS", "WLK_TRACEBACK"):
        monkeypatch.setenv(name, "")  # so that it is restored if a command sets it


@pytest.fixture
def own_signals():
    """
    Restore the handlers that the command line installs, and forget the signals it received.

    A test begins with default handlers, because under nohup or a shell's `&` signals are ignored.
    """
    from wlk_core.cli.signals import SIGNALS  # noqa: PLC0415 -- as above

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    SIGNALS.reset()


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(site, capsys):
    """Return a function that runs one command line of wlk-core in this process."""
    from wlk_core.cli.main import execute  # noqa: PLC0415 -- as above

    def execute_here(*arguments):
        capsys.readouterr()
        status = execute([str(argument) for argument in arguments], site.registry())
        return Done(status, *capsys.readouterr())

    return execute_here


@pytest.fixture
def complete(site, monkeypatch, capsys):
    """Return a function that returns what TAB offers after a command line, and what it prints."""
    from wlk_core import __main__ as entry  # noqa: PLC0415 -- as above

    def complete(line):
        monkeypatch.setattr(metadata, "entry_points", lambda **_group: site.entry_points)
        monkeypatch.setenv("_WLK_CORE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        with pytest.raises(SystemExit):
            entry.run()
        out, err = capsys.readouterr()
        return [row.partition(",")[2] for row in out.split()], err

    return complete


@pytest.fixture
def modules_of(site):
    """Return a function that runs a command line in a process and returns what it imported."""

    def modules_of(*arguments):
        code = (
            "import sys; from wlk_core.cli.main import execute; status = execute(sys.argv[1:]); "
            "print(*sys.modules, file=sys.stderr); sys.exit(status)"
        )
        done = subprocess.run(  # noqa: S603 -- the project's own command
            [sys.executable, "-c", code, *arguments],
            env=site.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return set(done.stderr.split())

    return modules_of


@pytest.fixture
def spawn(site):
    """Return a function that starts one command line of wlk-core in another process."""
    started = []

    def start(*arguments, **options):
        process = subprocess.Popen(  # noqa: S603 -- as above
            [sys.executable, "-m", "wlk_core", *map(str, arguments)],
            env=site.environment,
            stdin=subprocess.PIPE,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            # A shell's background jobs ignore Ctrl-C, and so would their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
