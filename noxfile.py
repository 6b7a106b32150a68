"""Every check of the project: `nox` runs the default sessions, `nox -l` lists all of them."""

from __future__ import annotations

import argparse
from functools import partial
import hashlib
from itertools import chain, count
import os
from pathlib import Path
import re
import shutil
import time
import tomllib
from typing import Any

import nox

nox.needs_version = ">=2025.11.12"  # sessions that require others
nox.options.default_venv_backend = "virtualenv"  # pip is what users have
nox.options.sessions = ["lint", "types", "tests", "proofs"]

ROOT = Path(__file__).parent
DIST = ROOT / "dist"  # of the session build
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PROOFS = tomllib.loads((ROOT / "tests/proofs.toml").read_text(encoding="utf-8"))
QUICK_PROOFS = [name for name, proof in PROOFS.items() if proof.get("quick", False)]
PYTHON = "3.11"
NEWER_PYTHONS = ["3.12", "3.13"]
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("core", "conformance", "bench", "serve", "plugins/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
EXAMPLES = [ROOT / "examples" / name for name in ("wlk-hello", "wlk-pocketsphinx")]
# torch is pinned and installed first, so that one build serves all; the newest one may be gigabytes
# of CUDA.  It is installed for PYTHON only: tests that need it are skipped on the newer Pythons.
TORCH = "torch==2.13.0"
PLUGINS = {
    path.name: nox.project.load_toml(path / "pyproject.toml")["project"]
    for path in DISTRIBUTIONS
    if path.parent.name == "plugins"
}
# Extras of a plugin, without those for CUDA.
EXTRAS = {
    name: tuple(extra for extra in project["optional-dependencies"] if "cuda" not in extra)
    for name, project in PLUGINS.items()
    if "optional-dependencies" in project
}
TORCH_EXTRAS = {"lora", "mlx", "torch"}  # mlx-whisper and mlx-qwen3-asr require torch
# wlk-voxtral-mlx is compared with transformers' Voxtral where torch is installed.
REFERENCES = ("transformers>=5.23,<6",)
# The published package that benchmarks/whisper.py compares with; safetensors loads our checkpoint.
PEER = ("whisperlivekit==0.2.26", "safetensors>=0.4.3")
# Clients of wlk-serve, which are tested in environments of their own because their pins disagree.
CLIENTS = {
    "openai": "openai[realtime]>=3,<4",
    "livekit": "livekit-agents[deepgram,openai]==1.8.9",
    "pipecat": "pipecat-ai[deepgram,openai]==1.14.0",
    "deepgram": "deepgram-sdk>=7,<8",
    "wyoming": "wyoming==1.10.2 wyoming-bench==2026.10.0",
    "whisperlivekit": PEER[0],
}
# vLLM without its engine: its realtime connection, and what that imports.
VLLM = "vllm==0.33.0"
VLLM_IMPORTS = ("fastapi", "pybase64", "regex", "uvicorn")
TESTS = (
    "core/tests",
    "conformance/tests",
    "bench/tests",
    "serve/tests",
    "tools/digits/tests",
    *(f"plugins/{path.name}/tests" for path in DISTRIBUTIONS if path.parent.name == "plugins"),
    "tests",
    "docs/tests",
    "deploy/tests",
    "examples/tests",
)
AXE = "axe-core@4.14.1"  # the npm package that the session browser fetches
BENCHMARKS = (
    ("core.py",),
    ("serve.py",),
    ("batching.py",),
    ("realtime.py",),
    ("whisper.py",),
    ("qwen3.py",),
    ("qwen3.py", "--tick", "2", "--backend", "qwen3-simul"),
    ("voxtral.py", "--backend", "voxtral-hf"),
    ("voxtral.py", "--backend", "voxtral-mlx"),
    ("voxtral.py", "--backend", "voxtral-mlx", "--engine", "voxmlx"),
)
# The digits models are too small to be divided among threads: two threads on two busy cores need
# twenty times as long as one.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

# Sessions that need every package share the environment of the session `everything`, because
# installing it takes longer than most tests.
shared = partial(nox.session, venv_backend="none", requires=["everything"])
BIN = ROOT / ".nox/everything" / ("Scripts" if os.name == "nt" else "bin")


def _group(name: str) -> list[str]:
    """Return the requirements of a dependency group of pyproject.toml."""
    return list(nox.project.dependency_groups(PROJECT, name))


def _editable(path: Path, extras: tuple[str, ...] = ()) -> list[str]:
    """Return pip's arguments that install a distribution of this checkout from its sources."""
    return ["-e", f"{path}[{','.join(extras)}]" if extras else str(path)]


def _sources(*names: str) -> list[str]:
    """Return pip's arguments for distributions without extras, by their folders."""
    return [argument for name in names for argument in _editable(ROOT / name)]


def _run(session: nox.Session, program: str, *arguments: str, **options: Any) -> Any:
    """Run a program of the shared environment; python modules are run as `python -m NAME`."""
    script = BIN / program
    command = [str(script)] if script.exists() else [str(BIN / "python"), "-m", program]
    return session.run(*command, *arguments, external=True, env=ENVIRONMENT, **options)


def _pytest(session: nox.Session, *arguments: str) -> None:
    """Run pytest with the configuration of the checkout; posargs replace *arguments*."""
    command = ("python", "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-q")
    session.run(*command, *(session.posargs or arguments), env=ENVIRONMENT)


@nox.session(python=PYTHON, reuse_venv=True, default=False)
def everything(session: nox.Session) -> None:
    """Install every distribution with all extras, the examples and all tools, once per change."""
    projects = [*DISTRIBUTIONS, *EXAMPLES, ROOT]
    state = hashlib.sha256(b"".join((path / "pyproject.toml").read_bytes() for path in projects))
    stamp = Path(session.virtualenv.location) / f"wlk-{state.hexdigest()[:16]}"
    if stamp.exists():
        return
    # pip compiles what it installs on one processor, which takes longer than the rest of it.
    session.install("--no-compile", TORCH)
    sources = [
        argument
        for path in DISTRIBUTIONS
        for argument in _editable(path, EXTRAS.get(path.name, ()))
    ]
    examples = [argument for path in EXAMPLES for argument in _editable(path)]
    session.install("--no-compile", *_group("dev"), *REFERENCES, *sources, *examples)
    compiler = ("-W", "ignore", "-m", "compileall", "-qq", "-j", "0")
    packages = sorted(Path(session.virtualenv.location).glob("lib*/**/site-packages"))
    # 1: templates among the packages are not valid Python.
    session.run("python", *compiler, *map(str, packages), success_codes=[0, 1])
    stamp.touch()


@nox.session(python=PYTHON)
def lint(session: nox.Session) -> None:
    """Check style, spelling, and that imports go one way."""
    session.install(*_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("python", "tools/budgets.py")
    sources = os.pathsep.join(str(path / "src") for path in DISTRIBUTIONS)
    session.run("lint-imports", env={"PYTHONPATH": sources})


@shared()
def types(session: nox.Session) -> None:
    """Check the types of all sources and of the public API's examples, strictly."""
    _run(session, "mypy", *[str(path / "src") for path in DISTRIBUTIONS])
    _run(session, "mypy", "core/tests/typing", "examples/transcribe_file.py")


#: The session proofs runs the suite, and compliance proves PocketSphinx: both tiers are minutes of
#: its acoustic model on every call.
PYTEST = ("-c", "pyproject.toml", "-q", "-n", "2", "--ignore-glob=*/test_*conformance*.py")
PYTEST += ("-k", "not pocketsphinx_keeps_the_contract")


@shared()
def tests(session: nox.Session) -> None:
    """Run all tests but those marked slow; `nox -s tests -- PATH` runs some."""
    some = ("-c", "pyproject.toml", "-q", *session.posargs)
    _run(session, "pytest", *(some if session.posargs else (*PYTEST, "-m", "not slow", *TESTS)))


@shared(tags=["matrix"])
def slow(session: nox.Session) -> None:
    """Run the tests that are marked slow, a process for each room, because many load a model."""
    failed = []
    for room in TESTS:
        try:  # 5: no test of this room is slow
            _run(session, "pytest", *PYTEST, "-m", "slow", room, success_codes=[0, 5])
        except nox.command.CommandFailed:
            failed.append(room)
    if failed:
        session.error(f"tests failed in {', '.join(failed)}")


def _prove(session: nox.Session, *arguments: str) -> None:
    """Run the suite on backends of tests/proofs.toml: names, "--" and arguments of the suite."""
    _run(session, "python", "tools/prove.py", "--reports", str(_reports(session)), *arguments)


def _reports(session: nox.Session) -> Path:
    """Return where the reports of proofs are kept until docs/compliance.md is written."""
    return session.cache_dir / "compliance"


@shared()
def proofs(session: nox.Session) -> None:
    """Prove one backend of each plugin against the contract tier, with few generated sessions."""
    _prove(session, *QUICK_PROOFS, "--", "--sessions=3")  # `speech` plays as many as by default


@shared(tags=["matrix"])
def speech(session: nox.Session) -> None:
    """Prove one backend of each plugin against both tiers of the suite."""
    _prove(session, *QUICK_PROOFS, "--", "--speech")


@shared(default=False)
def compliance(session: nox.Session) -> None:
    """Prove every backend in both tiers, check docs/compliance.md (`-- --write` writes it)."""
    _prove(session, "--", "--speech")
    page = ROOT / "docs" / "compliance.md"
    reports = [str(_reports(session) / f"{name}.json") for name in PROOFS]
    text = str(_run(session, "python", "tools/compliance_page.py", *reports, silent=True))
    if "--write" in session.posargs:
        page.write_text(text, encoding="utf-8")
    elif text != page.read_text(encoding="utf-8"):
        session.error("docs/compliance.md is out of date; run: nox -s compliance -- --write")


@shared(default=False)
def real(session: nox.Session) -> None:
    """Test published weights on open English: nox -s real -- [RECORDING ...]."""
    requirements = ROOT / "tools/real/requirements.txt"
    folder = session.cache_dir / f"real-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:8]}"
    packages = folder / "packages"
    if not packages.exists():
        # Most of it is only read, so that wheels for another platform will do.
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (34, 28)]
        wheels = ("--only-binary=:all:", *platforms, "--no-deps")
        into = ("--quiet", "--no-compile", "--target", str(packages))
        pip = ("install", *wheels, *into, "--require-hashes", "-r", str(requirements))
        printed = _run(session, "pip", *pip, silent=True, success_codes=range(256))
        if not packages.exists():
            reasons = [line for line in str(printed).splitlines() if line.startswith("ERROR")]
            session.skip(f"pip cannot install its weights: {reasons[-1] if reasons else printed}")
    outputs = {"weights": "models", "speakers": "models/speakers", "recordings": "recordings"}
    for script, output in outputs.items():
        sources = session.posargs if script == "recordings" else []
        made = ("--packages", str(packages), "--output", str(folder / output))
        _run(session, "python", f"tools/real/{script}.py", *made, *sources)
    session.env["WLK_REAL"] = str(folder)
    parallel = ("-n", "2", "--dist", "loadgroup")  # a model is loaded by one process
    _run(session, "pytest", "-c", "pyproject.toml", "-q", *parallel, "tests/real")


@shared(default=False)
def conformance(session: nox.Session) -> None:
    """Prove a backend: nox -s conformance -- BACKEND [options of wlk-conformance]."""
    if not session.posargs:
        session.error("name the backend: nox -s conformance -- BACKEND [--model REF] [--speech]")
    _run(session, "wlk-conformance", *session.posargs)


@nox.session(python=NEWER_PYTHONS, tags=["matrix"], default=False)
def core(session: nox.Session) -> None:
    """Test wlk-core without plugins on the newer Pythons."""
    session.install(*_group("test"), *_sources("core", "conformance"))
    _pytest(session, "-n", "2", "core/tests")


@nox.session(python=PYTHON, tags=["matrix"], default=False)
def lowest_core(session: nox.Session) -> None:
    """Test wlk-core with the oldest dependencies it declares, and measure its coverage."""
    project = nox.project.load_toml(ROOT / "core/pyproject.toml")["project"]
    declared = [dependency.split(",")[0] for dependency in project["dependencies"]]
    session.install(*[item.replace(">=", "==") for item in declared], *_group("test"), "psutil")
    session.install("--no-deps", *_sources("core", "conformance"))
    # Measured on PYTHON: the interpreter of 3.12.1 has crashed while coverage traced it.
    _pytest(session, "-n", "2", "--cov", "--cov-report=", "core/tests")


@nox.session(python=PYTHON, tags=["matrix"], default=False)
def lowest_qwen3(session: nox.Session) -> None:
    """Test Qwen3-ASR on torch with the oldest transformers that wlk-qwen3-simul declares."""
    path = ROOT / "plugins/wlk-qwen3-simul"
    extras = nox.project.load_toml(path / "pyproject.toml")["project"]["optional-dependencies"]
    (declared,) = (item.split(",")[0] for item in extras["torch"] if "transformers>=" in item)
    session.install(TORCH)
    session.install(declared.replace(">=", "=="), *_group("test"))
    session.install(*_sources("core", "conformance", "plugins/wlk-qwen3-simul"))
    tests = path / "tests"
    _pytest(session, str(tests / "test_networks.py"), str(tests / "test_checkpoint.py"))


@nox.session(python=NEWER_PYTHONS[-1], tags=["matrix"], default=False)
@nox.parametrize("name", [*EXTRAS], ids=[*EXTRAS])
def plugin(session: nox.Session, name: str) -> None:
    """Test a plugin without torch, in an environment of its own, on the newest Python."""
    project = PLUGINS[name]
    required = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[^a-z0-9-]", requirement)[0] for requirement in required}
    parts = sorted(f"plugins/{part}" for part in PLUGINS if part in names - {name})
    sources = _sources("core", "conformance", *parts)
    if "wlk-serve" in names:
        sources += _sources("serve")
    extras = tuple(extra for extra in EXTRAS[name] if extra not in TORCH_EXTRAS)
    chosen = _editable(ROOT / "plugins" / name, extras)
    session.install(*_group("test"), *sources, *chosen)
    rooms = [f"{path}/tests" for path in (*parts, f"plugins/{name}")]
    _pytest(session, "-n", "2", "--ignore-glob=*/test_*conformance*.py", *rooms)


@nox.session(python=PYTHON, tags=["matrix"], default=False)
def build(session: nox.Session) -> None:
    """Build every distribution, check its metadata, and install the wheels by name."""
    session.install(*_group("release"))
    shutil.rmtree(DIST, ignore_errors=True)
    for path in DISTRIBUTIONS:
        session.run("python", "-m", "build", "-o", str(DIST), str(path), silent=True)
    artefacts = sorted(DIST.iterdir())
    session.run("twine", "check", "--strict", *map(str, artefacts))
    wheels = [path for path in artefacts if path.suffix == ".whl"]
    names = [wheel.name.split("-")[0].replace("_", "-") for wheel in wheels]
    for wheel in wheels:
        size = wheel.stat().st_size / 1e6
        session.log("%s %.2f MB", wheel.name, size)
        if size > 12:  # noqa: PLR2004 -- megabytes, so that an install stays a matter of seconds
            session.error(f"{wheel.name} is larger than 12 MB")
    session.install(TORCH)
    _install_wheels(session, *names)
    session.chdir(session.create_tmp())
    for command in ("--version", "plugins", "backends", "doctor"):
        session.run("wlk-core", command)
    session.run("wlk-core", "demo", "--fast")


def _install_wheels(session: nox.Session, *names: str) -> None:
    """Install distributions by name: their dependencies from the index, then dist/ alone."""
    wheels = {path.name.split("-")[0].replace("_", "-"): path for path in DIST.glob("*.whl")}
    built = Path(session.create_tmp()) / "wheels.txt"  # keeps pip from asking the index for ours
    built.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in wheels.items()))
    session.install("--constraint", str(built), *names)
    session.run("python", "-m", "pip", "uninstall", "--yes", "--quiet", *wheels)
    session.install("--no-index", "--find-links", str(DIST), *names)


@nox.session(python=PYTHON, tags=["matrix"], default=False, requires=["build"])
def wheels(session: nox.Session) -> None:
    """Prove two backends without torch from the wheels of `build`, in the contract tier."""
    _install_wheels(session, "wlk-conformance", "wlk-whisper", "wlk-voxtral-mlx[cpu]")
    session.chdir(session.create_tmp())
    for backend in ("faster-whisper", "voxtral-mlx"):
        suite = ("wlk-conformance", backend, "--model", "digits", "--sessions", "3")
        session.run(*suite, env=ENVIRONMENT)


@shared(default=False)
def site(session: nox.Session) -> None:
    """Build the documentation strictly, as a slow test does; the pages lie in site/."""
    _run(session, "mkdocs", "build", "--strict", "--quiet")


@shared(default=False)
def benchmarks(session: nox.Session) -> None:
    """Print the figures of benchmarks/ for every backend."""
    for script, *arguments in BENCHMARKS:
        _run(session, "python", f"benchmarks/{script}", *arguments)


@shared(default=False)
def benchmark_page(session: nox.Session) -> None:
    """Write docs/benchmarks.md: every backend with a digits checkpoint on the digits set."""
    _run(session, "python", "tools/benchmark_page.py", "--output", "docs/benchmarks.md")


@nox.session(python=PYTHON, default=False)
@nox.parametrize("client", [*CLIENTS], ids=[*CLIENTS])
def clients(session: nox.Session, client: str) -> None:
    """Test wlk-serve with real clients, unmodified: nox -s clients, or "clients(livekit)"."""
    protocols = [f"plugins/{name}" for name in PLUGINS if name.startswith("wlk-protocol-")]
    sources = _sources("core", "conformance", "serve", "plugins/wlk-whisper", *protocols)
    if client == "whisperlivekit":  # one module of it, without torch and all else that it requires
        session.install("--no-deps", CLIENTS[client])
        session.install(*_group("test"), *sources)
    else:
        session.install(*CLIENTS[client].split(), *_group("test"), *sources)
    session.env["WLK_CLIENTS"] = "1"  # serve/tests/clients/conftest.py collects nothing otherwise
    tests = sorted((ROOT / "serve/tests").rglob(f"test_{client}*.py"))
    # `-W default`: warnings of other packages are not errors.
    _pytest(session, "-W", "default", *map(str, tests))


@nox.session(python=PYTHON, default=False)
def vllm(session: nox.Session) -> None:
    """Test wlk-realtime against vLLM's own realtime connection, unmodified, without a GPU."""
    sources = _sources("core", "conformance", "plugins/wlk-realtime")
    session.install(TORCH)
    session.install(*_group("test"), *sources, *VLLM_IMPORTS)
    session.install("--no-deps", VLLM)  # 340 MB; what it requires is many times that
    # `-W default`: warnings of other packages are not errors.
    _pytest(session, "-W", "default", "plugins/wlk-realtime/tests/test_own_vllm.py")


@nox.session(python=PYTHON, default=False)
def ray(session: nox.Session) -> None:
    """Test wlk-serve on a local Ray Serve."""
    sources = _sources("core", "conformance", "plugins/wlk-realtime", "plugins/wlk-whisper")
    session.install(*_group("test"), *sources, *_editable(ROOT / "serve", ("ray",)))
    session.env["RAY_USAGE_STATS_ENABLED"] = "0"
    # `-W default`: warnings of other packages are not errors.
    tests = ("serve/tests/ray", "deploy/tests/test_kubernetes.py")
    _pytest(session, "-W", "default", "-o", "faulthandler_timeout=0", *tests)


@nox.session(python=PYTHON, default=False)
def browser(session: nox.Session) -> None:
    """Test the caption page in Chromium, and its accessibility with axe-core: nox -s browser."""
    if not any(map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))):
        session.skip("needs Chromium on the PATH; on Debian: apt-get install chromium")
    sources = _sources("core", "serve", "plugins/wlk-whisper")
    session.install("playwright==1.65.2", *_group("test"), *sources)
    if shutil.which("npm") is None:
        session.warn("no npm on the PATH: the tests with axe-core are skipped")
    else:
        home = session.create_tmp()
        session.run("npm", "install", "--silent", "--prefix", home, AXE, external=True)
        session.env["WLK_AXE"] = f"{home}/node_modules/axe-core/axe.min.js"
    _pytest(session, "serve/tests/page/test_page_modules.py", "serve/tests/browser")


@nox.session(python=PYTHON, default=False)
def latency_peers(session: nox.Session) -> None:
    """Compare the latency metrics of wlk-bench with OmniSTEval's, and its DER with pyannote's."""
    session.install(*_group("test"), *_sources("core", "conformance", "bench"))
    session.install("OmniSTEval==0.1.10", "pyannote.metrics>=4")
    _pytest(session, "bench/tests/test_peers.py", "bench/tests/test_annotators.py")


@nox.session(python=PYTHON, default=False)
def whisperlivekit(session: nox.Session) -> None:
    """
    Measure the published whisperlivekit: nox -s whisperlivekit -- --minutes 10.

    `python benchmarks/whisper.py` prints our rows of the same stream.
    """
    parts = ("core", "conformance", "bench", "plugins/wlk-whisper", "plugins/wlk-whisper-digits")
    session.install(TORCH)
    try:
        session.install(TORCH, *PEER, *(str(ROOT / part) for part in parts))
    except nox.command.CommandFailed:
        session.error(f"{PEER[0]} cannot be installed here; pip gives the reason above")
    session.run("python", "benchmarks/peer_whisperlivekit.py", *session.posargs)


@shared(default=False)
def fuzz(session: nox.Session) -> None:
    """Try new generated input on every target: nox -s fuzz -- [--cases N] [--minutes M]."""
    parser = argparse.ArgumentParser(prog="nox -s fuzz --")
    parser.add_argument("--cases", type=int, default=1000, help="of each target in each round")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin rounds for this long")
    budget, began = parser.parse_args(session.posargs), time.monotonic()
    session.env.update({"WLK_FUZZ": "full", "WLK_FUZZ_CASES": str(budget.cases)})
    for number in count(1):
        session.log("round %d: %d new cases of each target", number, budget.cases)
        patient = ("-o", "faulthandler_timeout=0")
        _run(session, "pytest", "-c", "pyproject.toml", "-q", "-n", "2", *patient, "tests/fuzz")
        if time.monotonic() - began >= 60 * budget.minutes:
            return


@shared(default=False)
def full(session: nox.Session) -> None:
    """Run what is too long for CI: hour-long streams, a million generated inputs, benchmarks."""
    # The stack dump of a hanging test is switched off: in this session a test may take as long.
    session.env.update({"WLK_FULL": "1", "WLK_FUZZ": "full"})
    _run(session, "pytest", "-c", "pyproject.toml", "-q", "-o", "faulthandler_timeout=0", "tests")
    _prove(session, "--", "--speech", "--long")
    session.notify("benchmarks")
