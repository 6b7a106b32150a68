"""The backend keeps the contract over HTTP, at an endpoint that recognises digits."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY

from wlk_conformance import BackendConformance
from wlk_whisper.openai_api.backend import OpenAIBackend


def with_seams(server):
    """Return the backend class with the suite's seams, which make the endpoint fail and wait."""

    class Wired(OpenAIBackend):
        """Requests are the engine calls."""

        calls = property(lambda _: server.arrivals)
        fail_at = property(
            lambda _: server.fail_at, lambda _, value: setattr(server, "fail_at", value)
        )
        before_call = property(
            lambda _: server.before_response,
            lambda _, value: setattr(server, "before_response", value),
        )

    return Wired


@pytest.fixture(scope="class", autouse=True)
def _endpoint(request, session_endpoint):
    """Point the class at the endpoint, and put its key into the environment."""
    server = session_endpoint
    server.rejections.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setattr("wlk_whisper.openai_api.backend.OpenAIBackend", with_seams(server))
        # Without retries of the client itself each request is one engine call.
        request.cls.options = {"base_url": server.url, "max_retries": 0}
        yield
    assert [] == server.rejections


class TestOpenAIApi(BackendConformance):
    """Every rule of both tiers, with an endpoint that fails in every way endpoints do."""

    backend = "openai-api"
    model = "digits"
