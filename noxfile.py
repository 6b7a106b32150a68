"""Everything that is checked, the same on every desk and in CI: `nox`, or `nox -l` for a list."""

from __future__ import annotations

from itertools import product
import os
from pathlib import Path
import shutil
import tomllib

import nox

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13"]
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("core", "conformance", "bench", "plugins/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
PLUGINS = [path for path in DISTRIBUTIONS if path.parent.name == "plugins"]
PYTEST = ("python", "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-q")
# What docs/compliance.md is about: by the distribution in whose environment it is proven, the name
# of each report and how wlk-conformance is told of the backend.
DIGITS = ("--model", "digits")
COMPLIANT = {
    "core": {
        "scripted": ("scripted", *DIGITS),
    },
    "wlk-voxtral-hf": {
        "voxtral-hf": ("voxtral-hf", *DIGITS),
    },
    "wlk-voxtral-mlx": {
        "voxtral-mlx": ("voxtral-mlx", *DIGITS),
        "voxtral-voxmlx": ("voxtral-mlx", *DIGITS, "--option", "engine=voxmlx"),
    },
    "wlk-whisper": {
        "faster-whisper": ("faster-whisper", *DIGITS),
        "whisper-alignatt": ("whisper", *DIGITS, "--policy", "alignatt"),
        "whisper-agreement": ("whisper", *DIGITS, "--policy", "local-agreement"),
        "mlx-alignatt": ("mlx-whisper", *DIGITS, "--policy", "alignatt"),
    },
    "wlk-qwen3-simul": {
        "qwen3-alignatt": ("qwen3-simul", *DIGITS, "--policy", "alignatt"),
        "qwen3-agreement": ("qwen3-simul", *DIGITS, "--policy", "local-agreement"),
        "qwen3-mlx-alignatt": ("qwen3-mlx-simul", *DIGITS, "--policy", "alignatt"),
    },
    "examples": {
        "pocketsphinx": ("pocketsphinx", *DIGITS),
        "hello": ("hello",),
    },
}
# Proven by a test of its plugin, which brings what the backend talks to.
PROOF_TESTS = {"wlk-whisper": {"openai-api": "openai_api/test_conformance.py"}}
# Extras a plugin is tested with, and those of them that bring torch.  On Linux an unpinned torch
# means gigabytes of CUDA, so it is installed first, pinned, and on one Python; on the others the
# tests that need it are skipped.
EXTRAS = {
    "wlk-qwen3-simul": ("mlx", "torch"),
    "wlk-voxtral-mlx": ("cpu", "voxmlx"),
    "wlk-whisper": ("lora", "mlx", "openai", "torch"),
}
TORCH_EXTRAS = ("lora", "mlx", "torch")
TORCH_PLUGINS = ("wlk-voxtral-hf",)  # bring torch without an extra
# Beside torch, what the tests of a plugin hold it against where torch is.
REFERENCES = {"wlk-voxtral-mlx": ("transformers>=5.23,<6",)}
TORCH = "torch==2.13.0"
TORCH_PYTHON = "3.11"
# The published package that benchmarks/whisper.py is held against; it asks for any torch.
PEER = ("whisperlivekit==0.2.26", "safetensors>=0.4.3")  # the second, to load our checkpoint
# What is measured of our own; peers are in environments of their own.
BENCHMARKS = (
    ("core.py",),
    ("whisper.py",),
    ("whisper.py", "--growth", "--minutes", "30"),
    ("qwen3.py",),
    ("qwen3.py", "--tick", "2", "--backend", "qwen3-simul"),
    ("qwen3.py", "--growth", "--minutes", "30", "--backend", "qwen3-simul"),
    ("voxtral.py", "--backend", "voxtral-hf"),
    ("voxtral.py", "--backend", "voxtral-mlx"),
    ("voxtral.py", "--backend", "voxtral-mlx", "--engine", "voxmlx"),
)
TEST_TOOLS = ("pytest>=8.3", "hypothesis>=6.100")  # 6.100: stable database-free profiles

# The digits models are too small to share among threads: on two busy cores two threads take twenty
# times as long as one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

nox.options.default_venv_backend = "virtualenv"  # pip is what users have
nox.options.sessions = [
    "lint",
    "types",
    "core",
    "plugin",
    "suite",
    "bench",
    "examples",
    "tools",
    "together",
    "documents",
    "minimums",
    "floors",
    "build",
    "compliance",  # reads what the session plugin found out
]


def _sources(*names: str) -> list[str]:
    """Return the folders of the named distributions that exist here."""
    return [str(path) for path in DISTRIBUTIONS if not names or path.name in names]


def _with_extras(name: str) -> str:
    """Return the folder of a plugin with all the extras it is tested with."""
    (source,) = _sources(name)
    return f"{source}[{','.join(EXTRAS[name])}]"


def _install_all(session: nox.Session, *more: str) -> None:
    """Install every distribution and *more*, torch first: see EXTRAS."""
    session.install(TORCH)
    session.install(*more, *_sources())


def _test(session: nox.Session, *arguments: str) -> None:
    """Run pytest, with what was said behind `--` in place of *arguments*."""
    session.run(*PYTEST, *(session.posargs or arguments), env={"PYTHONUNBUFFERED": "1"})


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Check style and layout of every file."""
    session.install("ruff==0.17.6")  # pinned: select ALL means every release brings new rules
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python="3.11")
def types(session: nox.Session) -> None:
    """Check the types of all sources together, strictly."""
    # mypy is pinned: a new release is a change of its own; the mutation run steers hypothesis.
    _install_all(session, "mypy==2.4.1", "hypothesis>=6.100")
    session.run("mypy", *[str(path / "src") for path in DISTRIBUTIONS])


@nox.session(python=PYTHONS)
def core(session: nox.Session) -> None:
    """Test wlk-core with no plugin installed."""
    session.install("-e", str(ROOT / "core"), *TEST_TOOLS)
    _test(session, "core/tests")


@nox.session(python="3.11")
def minimums(session: nox.Session) -> None:
    """Test wlk-core with the oldest dependencies it declares."""
    project = tomllib.loads((ROOT / "core/pyproject.toml").read_text(encoding="utf-8"))
    floors = [
        dependency.split(",")[0].replace(">=", "==")
        for dependency in project["project"]["dependencies"]
    ]
    session.install(*floors, *TEST_TOOLS)
    session.install("--no-deps", "-e", str(ROOT / "core"))
    _test(session, "core/tests")


@nox.session(python=TORCH_PYTHON)
def floors(session: nox.Session) -> None:
    """Test Qwen3-ASR on torch with the oldest transformers that wlk-qwen3-simul declares."""
    name = "wlk-qwen3-simul"
    project = tomllib.loads((ROOT / f"plugins/{name}/pyproject.toml").read_text(encoding="utf-8"))
    declared = project["project"]["optional-dependencies"]["torch"]
    (floor,) = (one.split(",")[0] for one in declared if one.startswith("transformers>="))
    session.install(TORCH)  # first, see EXTRAS
    session.install(floor.replace(">=", "=="), *TEST_TOOLS, *_sources("core", name))
    _test(session, f"plugins/{name}/tests/test_torch_network.py")


@nox.session(python=PYTHONS)
@nox.parametrize("name", [path.name for path in PLUGINS], ids=[path.name for path in PLUGINS])
def plugin(session: nox.Session, name: str) -> None:
    """Test one plugin in an environment of its own, its conformance included (3.11: elsewhere)."""
    extras = EXTRAS.get(name, ())
    if name in TORCH_PLUGINS and session.python != TORCH_PYTHON:
        session.skip(f"{name} brings torch, which is pinned for Python {TORCH_PYTHON}")
    if session.python != TORCH_PYTHON:
        extras = tuple(extra for extra in extras if extra not in TORCH_EXTRAS)
    elif set(extras) & set(TORCH_EXTRAS) or name in (*TORCH_PLUGINS, *REFERENCES):
        session.install(TORCH, *REFERENCES.get(name, ()))
    (source,) = _sources(name)
    source += f"[{','.join(extras)}]" if extras else ""
    session.install(*TEST_TOOLS, *_sources("core", "conformance"), source)
    if session.python != TORCH_PYTHON:
        _test(session, f"plugins/{name}/tests")
        return
    # On that Python the backends are proven in both tiers, one report each; their conformance
    # tests would prove the first tier once more.
    _test(session, f"plugins/{name}/tests", "--ignore-glob=*/test_*conformance*.py")
    if not session.posargs:
        _prove(session, name)


def _report(session: nox.Session, name: str) -> Path:
    """Return where a proof is kept until docs/compliance.md is checked."""
    return session.cache_dir / "compliance" / f"{name}.json"


def _prove(session: nox.Session, name: str) -> None:
    """Prove the backends of a distribution in both tiers."""
    _report(session, name).parent.mkdir(parents=True, exist_ok=True)
    for report, backend in COMPLIANT.get(name, {}).items():
        place = _report(session, report)
        place.unlink(missing_ok=True)
        session.run("wlk-conformance", *backend, "--speech", "--report", str(place))
    for report, test in PROOF_TESTS.get(name, {}).items():
        place = _report(session, report)
        place.unlink(missing_ok=True)
        proof = f"plugins/{name}/tests/{test}"
        session.run(*PYTEST, proof, "--wlk-speech", f"--wlk-report={place}")


@nox.session(python="3.11")
def suite(session: nox.Session) -> None:
    """Test the conformance suite on its own reference and on backends that break its rules."""
    session.install(*TEST_TOOLS, *_sources("core", "conformance"))
    _test(session, "conformance/tests")


@nox.session(python="3.11", default=False)
def conformance(session: nox.Session) -> None:
    """Prove a backend: nox -s conformance -- BACKEND [options of wlk-conformance]."""
    if not session.posargs:
        session.error("name the backend: nox -s conformance -- BACKEND [--model REF] [--speech]")
    _install_all(session, *map(_with_extras, EXTRAS))
    session.run("wlk-conformance", *session.posargs)


@nox.session(python="3.11")
def bench(session: nox.Session) -> None:
    """Test wlk-bench, on the scripted backend and on a real one."""
    session.install(*TEST_TOOLS, *_sources("core", "bench", "wlk-whisper"))
    _test(session, "bench/tests")


@nox.session(python="3.11")
def examples(session: nox.Session) -> None:
    """Install the examples, generate a backend from the template, and prove them all."""
    here = ROOT / "examples"
    session.install(*TEST_TOOLS, "hatchling", "copier>=9", "mypy==2.4.1", "ruff==0.17.6")
    session.install(*_sources("core", "conformance"))
    session.install("--no-deps", str(here / "wlk-hello"))
    session.install(str(here / "wlk-pocketsphinx"))
    # Both tiers of wlk-pocketsphinx take minutes; the session compliance runs them.
    _test(session, "examples/tests", "-k", "not pocketsphinx_keeps_the_contract")


@nox.session(python="3.11")
def compliance(session: nox.Session) -> None:
    """Prove scripted and the examples, check docs/compliance.md (`-- --write` writes it)."""
    page = ROOT / "docs" / "compliance.md"
    session.install(*TEST_TOOLS, *_sources("core", "conformance"))
    session.install("--no-deps", str(ROOT / "examples" / "wlk-hello"))
    session.install(str(ROOT / "examples" / "wlk-pocketsphinx"))
    _prove(session, "core")
    _prove(session, "examples")
    reports = []
    for name in COMPLIANT:
        for report in (*COMPLIANT.get(name, {}), *PROOF_TESTS.get(name, {})):
            reports.append(str(_report(session, report)))
            if not Path(reports[-1]).exists():
                command = f"nox -s 'plugin-{TORCH_PYTHON}({name})'"
                session.error(f"there is no proof of {report} yet; run: {command}")
    text = str(session.run("python", "-m", "wlk_conformance.compliance", *reports, silent=True))
    if "--write" in session.posargs:
        page.write_text(text, encoding="utf-8")
    elif text != page.read_text(encoding="utf-8"):
        session.error("docs/compliance.md is out of date; run: nox -s compliance -- --write")


@nox.session(python="3.11")
def tools(session: nox.Session) -> None:
    """Test what trains the digits checkpoints, as far as it needs no framework."""
    session.install(*TEST_TOOLS, "numpy", "scipy", *_sources("core"))
    _test(session, "tools/digits/tests")


@nox.session(python="3.11")
def together(session: nox.Session) -> None:
    """Install everything in one environment, use it through the command line, compare engines."""
    _install_all(session, *TEST_TOOLS, _with_extras("wlk-voxtral-mlx"))
    _test(session, "tests")


@nox.session(python="3.11")
def documents(session: nox.Session) -> None:
    """Run every example of README.md and docs/."""
    session.install(*TEST_TOOLS, *_sources("core", "conformance", "wlk-whisper"))
    _test(session, "docs/tests")


@nox.session(python="3.11")
def build(session: nox.Session) -> None:
    """Build the wheels and install them by name, as from an index."""
    session.install("build>=1.2")  # 1.2: --installer and quiet isolated builds
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for path in DISTRIBUTIONS:
        session.run("python", "-m", "build", "--wheel", "-o", str(dist), str(path), silent=True)
    wheels = sorted(dist.glob("*.whl"))
    names = [wheel.name.split("-")[0].replace("_", "-") for wheel in wheels]
    for wheel in wheels:
        size = wheel.stat().st_size / 1e6
        session.log("%s %.2f MB", wheel.name, size)
        if size > 12:  # noqa: PLR2004 -- megabytes, so that an install stays a matter of seconds
            session.error(f"{wheel.name} is larger than 12 MB")
    # Dependencies from the index first (torch before all: see EXTRAS), the wheels from dist/ alone.
    session.install(TORCH)
    session.install(*map(str, wheels))
    session.run("python", "-m", "pip", "uninstall", "--yes", "--quiet", *names)
    session.install("--no-index", "--find-links", str(dist), *names)
    session.chdir(session.create_tmp())
    session.run("wlk-core", "--version")
    session.run("wlk-core", "plugins")
    session.run("wlk-core", "demo", "--fast")
    session.run("wlk-conformance", "--version")


@nox.session(python="3.11", default=False)
def benchmarks(session: nox.Session) -> None:
    """Print the figures of benchmarks/, with every framework that is installed for the table."""
    plain = [path.name for path in DISTRIBUTIONS if path.name not in EXTRAS]
    session.install(TORCH)  # first, see EXTRAS
    session.install(*_sources(*plain), *map(_with_extras, EXTRAS))
    for script, *arguments in BENCHMARKS:
        session.run("python", str(ROOT / "benchmarks" / script), *arguments)


@nox.session(python="3.11", default=False)
def table(session: nox.Session) -> None:
    """
    Write docs/benchmarks.md: every backend with a digits checkpoint on the digits set.

    What is said behind `--` is installed, too: a backend from elsewhere.
    """
    plain = [path.name for path in DISTRIBUTIONS if path.name not in EXTRAS]
    session.install(TORCH)  # first, see EXTRAS
    session.install(*_sources(*plain), *map(_with_extras, EXTRAS), *session.posargs)
    session.install(str(ROOT / "examples" / "wlk-pocketsphinx"))
    session.run("python", "-m", "wlk_bench.docs", "--output", str(ROOT / "docs/benchmarks.md"))


@nox.session(python="3.11", default=False)
def peers(session: nox.Session) -> None:
    """Hold the latency metrics of wlk-bench against those of OmniSTEval and simulstream."""
    session.install(*TEST_TOOLS, *_sources("core", "bench"))
    session.install("OmniSTEval==0.1.10", "mweralign==1.4.1", "pyyaml")
    session.install("--no-deps", "simulstream==1.0.0")  # its scorers need no torch
    _test(session, "bench/tests/test_peers.py")


@nox.session(python=TORCH_PYTHON, default=False)
def peer(session: nox.Session) -> None:
    """
    Measure the published whisperlivekit: nox -s peer -- --minutes 10 --output peer.json.

    `python benchmarks/whisper.py --peer peer.json` prints its rows beside ours.
    """
    session.install(TORCH)  # first, see EXTRAS
    try:
        session.install(TORCH, *PEER, *_sources("core", "bench", "wlk-whisper"))
    except nox.command.CommandFailed:
        session.error(f"{PEER[0]} cannot be installed here; pip says why above")
    session.run("python", str(ROOT / "benchmarks/peer_whisperlivekit.py"), *session.posargs)


@nox.session(python="3.11", default=False)
def full(session: nox.Session) -> None:
    """Run what is too long for CI: the long tier of every backend and the benchmarks."""
    _install_all(session, *TEST_TOOLS, *map(_with_extras, EXTRAS))
    # A dump of the stack of whatever takes two minutes is no help where everything does, and can
    # end the process that it looks into.
    patient = ("-o", "faulthandler_timeout=0")
    session.run(*PYTEST, *patient, "tests", env={"WLK_FULL": "1"})
    for policy in ("local-agreement", "alignatt", "native"):
        session.run("wlk-conformance", "scripted", "--policy", policy, "--speech", "--long")
    mutants = ("python", "-m", "wlk_conformance.mutants", "--sample", "200", "--jobs", "2")
    session.run(*mutants, "--floor", "0.75")
    session.run("wlk-conformance", "faster-whisper", "--model", "digits", "--speech", "--long")
    backends = ("whisper", "mlx-whisper", "qwen3-simul", "qwen3-mlx-simul")
    for backend, policy in product(backends, ("alignatt", "local-agreement")):
        chosen = ("--model", "digits", "--policy", policy)
        session.run("wlk-conformance", backend, *chosen, "--speech", "--long")
    for name in ("wlk-voxtral-hf", "wlk-voxtral-mlx"):
        for chosen in COMPLIANT[name].values():
            session.run("wlk-conformance", *chosen, "--speech", "--long")
    for script, *arguments in BENCHMARKS:
        session.run("python", str(ROOT / "benchmarks" / script), *arguments)
