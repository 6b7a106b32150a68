"""The scripts, which run seldom, find what they import from the distributions of the project."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = sorted(path.stem for path in Path(__file__).parents[1].glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_finds_what_it_imports(script: str) -> None:
    """Only packages of others may be missing, such as synthesisers and frameworks."""
    try:
        import_module(script)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("wlk_"):
            raise
        pytest.skip(str(error))
