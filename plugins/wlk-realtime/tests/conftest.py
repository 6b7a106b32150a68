"""Fixtures that run wlk-serve on this machine."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from server_process import ServerProcess  # noqa: E402 -- needs the line above


@pytest.fixture(scope="session")
def scripted_server():
    """Return a wlk-serve with the scripted backend, shared by all tests."""
    with ServerProcess("scripted") as server:
        yield server


@pytest.fixture
def own_server():
    """Return a wlk-serve with the scripted backend that the test can kill."""
    with ServerProcess("scripted") as server:
        yield server
