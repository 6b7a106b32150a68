"""vLLM's own connection, with a stub engine and without a GPU: nox -s vllm."""

from __future__ import annotations

import os
from pathlib import Path
import sys

import pytest

# vLLM needs an environment of its own.
collect_ignore_glob = [] if os.environ.get("WLK_VLLM") else ["test_*.py"]

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "vllm_dialect")]


@pytest.fixture
def engine():
    """Return an engine whose words are bursts of sound."""
    from connection_app import StubEngine  # noqa: PLC0415 -- imports vLLM

    return StubEngine()


@pytest.fixture
def url(engine):
    """Return the address of a server."""
    from connection_app import running  # noqa: PLC0415 -- imports vLLM

    with running(engine) as address:
        yield address
