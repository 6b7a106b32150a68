"""Servers on this machine."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from server_process import ServerProcess  # noqa: E402 -- found through the line above


@pytest.fixture(scope="session")
def scripted_server():
    """Return a wlk-serve of the scripted backend, which runs until the tests end."""
    with ServerProcess("scripted") as server:
        yield server


@pytest.fixture
def own_server():
    """Return a wlk-serve of the scripted backend that this test may kill."""
    with ServerProcess("scripted") as server:
        yield server
