"""The backend keeps the contract over HTTP, at an endpoint that hears digits."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY

from wlk_conformance import BackendConformance


@pytest.fixture(scope="class", autouse=True)
def _endpoint(request, endpoint_of_the_session):
    """Point the class at the endpoint, and put its key where the backend looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        request.cls.options = {"base_url": endpoint_of_the_session.url}
        yield
    assert [] == endpoint_of_the_session.refusals


class TestOpenAIApi(BackendConformance):
    """Every rule of both tiers."""

    backend = "openai-api"
    model = "digits"
