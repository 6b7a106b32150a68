"""Fixtures of the suite's own tests: fake plugins, and the two ways to run the suite."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))  # the package faulty_backends


@pytest.fixture
def environment():
    """Return the environment of a process in which the plugins in fakes/ are installed."""
    folders = [str(TESTS / "fakes"), str(TESTS), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


@pytest.fixture
def judge(tmp_path, environment):
    """Return a function that runs wlk-conformance in an empty directory."""

    def run(*arguments, cwd=tmp_path, timeout=900):
        command = [sys.executable, "-P", "-m", "wlk_conformance", *arguments]
        return subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def authors_pytest(tmp_path, environment):
    """Return a function that runs pytest on a test module like that of a backend's author."""

    def run(source, *arguments, timeout=900):
        (tmp_path / "pyproject.toml").write_text(
            '[tool.pytest.ini_options]\naddopts = ["--strict-markers", "-p", "no:cacheprovider"]\n'
            'filterwarnings = ["error"]\n'
        )
        (tmp_path / "test_conformance.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-rA", *arguments, "test_conformance.py"]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
