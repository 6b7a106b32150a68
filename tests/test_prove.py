"""tools/prove.py: the proofs of tests/proofs.toml, and the command of each."""

from __future__ import annotations

import json
from pathlib import Path
import runpy
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tools/prove.py"


@pytest.fixture(scope="module")
def script():
    """Return the names of the script."""
    return runpy.run_path(str(SCRIPT))


def prove(*arguments):
    """Run the script with *arguments*."""
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


def test_a_proof_of_a_test_takes_the_arguments_of_the_suite(script, tmp_path):
    """Options of wlk-conformance are options of its pytest plugin."""
    arguments = ["--speech", "--seed", "2", "--sessions=3"]

    words = script["command"]({"test": "tests/test_one.py"}, tmp_path / "one.json", arguments)

    expected = [f"--wlk-report={tmp_path / 'one.json'}"]
    assert [*expected, "--wlk-speech", "--wlk-seed=2", "--wlk-sessions=3"] == words[-4:]


def test_an_unknown_proof_is_refused_with_the_known_ones(tmp_path):
    """No suite is run."""
    done = prove("scripted", "nothing", "--reports", tmp_path)

    assert 2 == done.returncode
    assert "got nothing" in done.stderr
    assert "faster-whisper" in done.stderr


@pytest.mark.slow
def test_a_proof_leaves_its_report(tmp_path):
    """One rule of one backend, so that it is a matter of seconds."""
    done = prove("hello", "--reports", tmp_path, "--", "--rule", "PKG-01", "--sessions", "0")

    assert 0 == done.returncode, done.stdout
    assert "hello: exit status 0" in done.stdout
    assert "hello" == json.loads((tmp_path / "hello.json").read_text())["backend"]


@pytest.mark.slow
def test_a_proof_that_fails_is_named(tmp_path):
    """A rule that does not exist is an error of the suite's command."""
    done = prove("hello", "--reports", tmp_path, "--", "--rule", "NO-99")

    assert 1 == done.returncode
    assert "not compliant: hello" in done.stdout
