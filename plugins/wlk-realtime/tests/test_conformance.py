"""The backend keeps the contract through the wire, at a server that reads coded audio."""

from __future__ import annotations

import pytest
from server_process import ServerProcess

from wlk_conformance import BackendConformance


@pytest.fixture(scope="class", autouse=True)
def _server(request):
    """Point the class at a server."""
    with ServerProcess("scripted") as server:
        request.cls.model = server.url
        yield


class TestRealtime(BackendConformance):
    """Every rule, with exact words and times."""

    backend = "realtime"
