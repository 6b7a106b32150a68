"""A server on this machine and the backend that calls it."""

from __future__ import annotations

from pathlib import Path
import sys
import threading

import pytest

from wlk_core import load_backend

sys.path[:0] = [str(Path(__file__).parent)]

from api_server import KEY, MODEL, DigitsServer  # noqa: E402 -- found through the line above


@pytest.fixture(scope="session")
def session_server():
    """Serve on a port of its own until the tests end."""
    server = DigitsServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    server.backend.close()


@pytest.fixture
def server(session_server, monkeypatch):
    """Return the server without earlier requests, and with its key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    session_server.next.clear()
    session_server.accepted.clear()
    session_server.rejections.clear()
    session_server.arrivals = 0
    return session_server


@pytest.fixture
def load(server):
    """Return a function that loads the backend at the server, closed after the test."""
    loaded = []

    def load(model=MODEL, **options):
        loaded.append(load_backend("openai-api", model, **{"base_url": server.url, **options}))
        return loaded[-1]

    yield load
    for backend in loaded:
        backend.close()
