"""The modules of the caption page, tested by node's own test runner."""

from __future__ import annotations

from pathlib import Path
import shutil
import subprocess

import pytest

TESTS = Path(__file__).parent
PAGE = Path(__file__).parents[2] / "src/wlk_serve/page"
NODE_VERSION = 20  # its test runner is stable as of this version

pytestmark = pytest.mark.slow


def node():
    """Return the path of node; skip the test if it is missing or too old."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("needs node 20 or newer on the PATH")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < NODE_VERSION:
        pytest.skip(f"needs node 20 or newer, got {version.strip()}")
    return path


@pytest.mark.parametrize("path", sorted(TESTS.glob("*.test.js")), ids=lambda path: path.name)
def test_a_module_keeps_its_rules(path, tmp_path):
    """The rules are the test names in the module's test file."""
    command = node()
    shutil.copytree(PAGE, tmp_path / "page")
    (tmp_path / "tests").mkdir()
    shutil.copy(path, tmp_path / "tests")
    (tmp_path / "package.json").write_text('{"type": "module"}')

    done = subprocess.run(
        [command, "--test", f"tests/{path.name}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "# pass 0" not in done.stdout
