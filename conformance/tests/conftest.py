"""What the suite's own tests share: plugins that go wrong, and the two ways to run the suite."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def environment():
    """Return the environment of a process in which the plugins in fakes/ are installed."""
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(FAKES), *([known] if known else [])])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def judge(tmp_path, environment):
    """Return a function that runs wlk-conformance in an empty directory."""

    def run(*arguments, cwd=tmp_path, timeout=120):
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
    """Return a function that runs pytest on a test module as the author of a backend writes it."""

    def run(source, *arguments, timeout=120):
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
