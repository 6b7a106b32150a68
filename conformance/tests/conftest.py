"""Fixtures of the suite's own tests: fake plugins, and the two ways to run the suite."""

from __future__ import annotations

import json
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
    """Return a function that runs wlk-conformance in an empty directory; it adds the report."""

    def run(*arguments, timeout=900):
        report = tmp_path / "report.json"
        command = [sys.executable, "-P", "-m", "wlk_conformance", "--report", report, *arguments]
        done = in_folder(tmp_path, environment, command, timeout)
        done.report = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        done.rows = {row["id"]: row for row in done.report["rules"]} if done.report else {}
        done.failed = {rule for rule, row in done.rows.items() if row["outcome"] == "fail"}
        return done

    return run


@pytest.fixture
def authors_pytest(tmp_path, environment):
    """Return a function that runs pytest on a test module such as an author writes."""

    def run(source, *arguments, timeout=900):
        (tmp_path / "pyproject.toml").write_text(
            '[tool.pytest.ini_options]\naddopts = ["--strict-markers", "-p", "no:cacheprovider"]\n'
            'filterwarnings = ["error"]\n'
        )
        (tmp_path / "test_conformance.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-rA", *arguments, "test_conformance.py"]
        return in_folder(tmp_path, environment, command, timeout)

    return run


def in_folder(folder, environment, command, timeout):
    """Run *command* in *folder*, and return the completed process."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
