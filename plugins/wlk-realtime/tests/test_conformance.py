"""The backend keeps the contract over a network connection."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from server_process import ServerProcess

from wlk_conformance import BackendConformance


@pytest.fixture(scope="class", autouse=True)
def _server(request):
    """Run a server, and set its address as the model of the class."""
    with ServerProcess(request.cls.remote) as server:
        request.cls.model = server.url
        yield


class TestRealtime(BackendConformance):
    """Run every rule at a server that reads coded audio, with exact words and times."""

    backend = "realtime"
    remote = "scripted"


@pytest.mark.skipif(find_spec("faster_whisper") is None, reason="pip install wlk-whisper")
class TestRealtimeDigits(BackendConformance):
    """Run every rule of both tiers at a server with faster-whisper."""

    backend = "realtime"
    remote = "faster-whisper"
