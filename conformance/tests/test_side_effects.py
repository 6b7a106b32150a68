"""Child processes that a backend leaves behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wlk_conformance.side_effects import children, remaining

WAITS = "import sys; sys.stdin.read()"  # until the pipe is closed


@pytest.fixture
def child():
    """Return a process that runs until its input is closed."""
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.stdin.close()
    process.wait()


def test_a_child_that_ends_in_time_is_no_finding(child):
    """A child that ends within the grace period is not reported, even if nobody waited for it."""
    before = frozenset(other for other in children() if other.pid != child.pid)
    child.stdin.close()

    assert remaining(before, grace=30.0) == []
