"""Which modules import which: the contracts of .importlinter, and no circles at all."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path
import subprocess
import sys

import grimp
from importlinter.api import read_configuration
import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / ".importlinter"


@pytest.fixture(scope="module")
def packages():
    """Return the packages that the contracts are about."""
    options = read_configuration(str(CONFIG))["session_options"]
    return options["root_packages"]


def test_the_contracts_are_about_every_package(packages):
    """A new distribution takes part in them."""
    found = {
        path.parent.name
        for pattern in ("*/src/*/__init__.py", "plugins/*/src/*/__init__.py")
        for path in ROOT.glob(pattern)
    }

    assert found == set(packages)


def test_every_contract_is_kept():
    """In a process of its own: lint-imports switches off the loggers that exist."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    options = ["--config", str(CONFIG), "--no-cache", "--no-logo"]
    command = [sys.executable, "-c", code, *options]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == result.returncode, result.stdout + result.stderr


def test_no_modules_import_each_other(packages):
    """There is no circle of imports, those inside functions and for types alone included."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    circle = []
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
    assert [] == circle
