"""The backend keeps the contract over HTTP, at a server that recognises digits."""

from __future__ import annotations

from collections import deque

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY

from wlk_conformance import BackendConformance, EngineFaults


class LeftToTheServer(frozenset):
    """The numbers of calls that fail at the server; `EngineFaults` itself fails none of them."""

    def __contains__(self, number):
        """Return False: the call does not fail, its request does."""
        return False


def faults_at(server):
    """Return a replacement of `EngineFaults.fail_before` that lets the server fail instead."""

    def fail_at_server(faults, numbers):
        faults.left_to_the_server = LeftToTheServer(numbers)
        server.fail_at = frozenset(server.arrivals + number - faults.count for number in numbers)

    return property(lambda faults: faults.left_to_the_server, fail_at_server)


@pytest.fixture(scope="class", autouse=True)
def _server(request, session_server):
    """Point the class at the server, and put its key into the environment."""
    server = session_server
    server.rejections.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        # The server is in this process: audio that it keeps would count as memory of a stream,
        # and a thread for a connection that stays open as one of the backend.
        patch.setattr(server, "accepted", deque(maxlen=0))
        patch.setattr(server.RequestHandlerClass, "protocol_version", "HTTP/1.0")
        patch.setattr(EngineFaults, "fail_before", faults_at(server), raising=False)
        # Without the client's own retries, each request is one engine call.
        request.cls.options = {"base_url": server.url, "max_retries": 0}
        yield
    assert server.rejections == []


class TestOpenAIApi(BackendConformance):
    """Every rule of both tiers, with a server that fails in every way servers do."""

    backend = "openai-api"
    model = "digits"
