"""An endpoint on this machine and the backend that talks to it."""

from __future__ import annotations

from pathlib import Path
import sys
import threading

import pytest

from wlk_core import load_backend

sys.path[:0] = [str(Path(__file__).parent)]

from api_server import KEY, MODEL, DigitsServer  # noqa: E402  # found through the line above
from hearing import Hearing  # noqa: E402  # as above


@pytest.fixture(scope="session")
def hearing():
    """Return the model behind the endpoint, loaded once."""
    heard = Hearing()
    yield heard
    heard.close()


@pytest.fixture(scope="session")
def endpoint_of_the_session(hearing):
    """Serve on a port of its own until the tests are over."""
    server = DigitsServer(hearing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(endpoint_of_the_session, monkeypatch):
    """Return the endpoint, with nothing in its memory, and its key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    endpoint_of_the_session.next.clear()
    endpoint_of_the_session.received.clear()
    endpoint_of_the_session.refusals.clear()
    endpoint_of_the_session.arrivals = 0
    return endpoint_of_the_session


@pytest.fixture
def load(server):
    """Return what loads the backend at the endpoint; what it loaded is closed behind the test."""
    loaded = []

    def load(model=MODEL, **options):
        loaded.append(load_backend("openai-api", model, **{"base_url": server.url, **options}))
        return loaded[-1]

    yield load
    for backend in loaded:
        backend.close()
