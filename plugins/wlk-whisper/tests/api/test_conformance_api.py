"""The backend keeps the contract over HTTP, at an endpoint that hears digits."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY

from wlk_conformance import BackendConformance
from wlk_whisper.api_backend import OpenAIBackend


def with_seams(server):
    """Return the backend with the suite's seams, which are the endpoint's: it fails and waits."""

    class Wired(OpenAIBackend):
        """Requests are the engine calls."""

        calls = property(lambda _: server.arrivals)
        fail_at = property(
            lambda _: server.fail_at, lambda _, value: setattr(server, "fail_at", value)
        )
        before_call = property(
            lambda _: server.hold, lambda _, value: setattr(server, "hold", value)
        )

    return Wired


@pytest.fixture(scope="class", autouse=True)
def _endpoint(request, endpoint_of_the_session):
    """Point the class at the endpoint, and put its key where the backend looks."""
    server = endpoint_of_the_session
    server.refusals.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setattr("wlk_whisper.api_backend.OpenAIBackend", with_seams(server))
        # Without retries of the client's own each request is one call of the engine.
        request.cls.options = {"base_url": server.url, "max_retries": 0}
        yield
    assert [] == server.refusals


class TestOpenAIApi(BackendConformance):
    """Every rule of both tiers, with an endpoint that fails in every way endpoints do."""

    backend = "openai-api"
    model = "digits"
