"""The backend keeps the contract through the wire, at a server of faster-whisper."""

from __future__ import annotations

import pytest
from server_process import ServerProcess

from wlk_conformance import BackendConformance

pytest.importorskip("faster_whisper", reason="pip install wlk-whisper")


@pytest.fixture(scope="class", autouse=True)
def _server(request):
    """Point the class at a server."""
    with ServerProcess("faster-whisper") as server:
        request.cls.model = server.url
        yield


class TestRealtimeDigits(BackendConformance):
    """Every rule of both tiers."""

    backend = "realtime"
