"""The backend keeps the contract through the wire."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from server_process import ServerProcess

from wlk_conformance import BackendConformance


@pytest.fixture(scope="class", autouse=True)
def _server(request):
    """Point the class at a server."""
    with ServerProcess(request.cls.remote) as server:
        request.cls.model = server.url
        yield


class TestRealtime(BackendConformance):
    """Every rule, with exact words and times, at a server that reads coded audio."""

    backend = "realtime"
    remote = "scripted"


@pytest.mark.skipif(find_spec("faster_whisper") is None, reason="pip install wlk-whisper")
class TestRealtimeDigits(BackendConformance):
    """Every rule of both tiers, at a server of faster-whisper."""

    backend = "realtime"
    remote = "faster-whisper"
