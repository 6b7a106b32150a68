"""tools/prove.py, which runs the proofs of tests/proofs.toml."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tools/prove.py"


def prove(*arguments):
    """Run the script with *arguments*."""
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_proof_leaves_its_report_and_a_failure_is_named(tmp_path):
    """One rule of one backend takes seconds; an unknown rule is an error of the suite."""
    done = prove("hello", "--reports", tmp_path, "--", "--rule", "PKG-01", "--sessions", "0")
    failed = prove("hello", "--reports", tmp_path / "x", "--", "--rule", "NO-99")

    assert done.returncode == 0, done.stdout
    assert "hello: exit status 0" in done.stdout
    assert json.loads((tmp_path / "hello.json").read_text())["backend"] == "hello"
    assert failed.returncode == 1
    assert "not compliant: hello" in failed.stdout
