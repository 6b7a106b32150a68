"""The backend keeps the contract over HTTP, at an endpoint that recognises digits."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY

from wlk_conformance import BackendConformance
from wlk_core.plugins import EngineCalls


def faults_at(server):
    """Return a class of engine calls whose faults are the endpoint's own."""

    class EndpointCalls(EngineCalls):
        """Each call is one request, and fails in one of the ways that endpoints do."""

        @property
        def fail_before(self):
            """No call, because the requests fail instead."""
            return frozenset()

        @fail_before.setter
        def fail_before(self, numbers):
            server.fail_at = frozenset(server.arrivals + number - self.count for number in numbers)

    return EndpointCalls


@pytest.fixture(scope="class", autouse=True)
def _endpoint(request, session_endpoint):
    """Point the class at the endpoint, and put its key into the environment."""
    server = session_endpoint
    server.rejections.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setattr("wlk_core.online.loaded_backend.EngineCalls", faults_at(server))
        # Without retries of the client itself each request is one engine call.
        request.cls.options = {"base_url": server.url, "max_retries": 0}
        yield
    assert [] == server.rejections


class TestOpenAIApi(BackendConformance):
    """Every rule of both tiers, with an endpoint that fails in every way endpoints do."""

    backend = "openai-api"
    model = "digits"
