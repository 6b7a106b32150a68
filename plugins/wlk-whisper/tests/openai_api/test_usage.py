"""Usage of an endpoint, counted and logged."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import response
from engine_call import transcribe

from wlk_conformance.testing import noise
from wlk_core import load_backend


def test_usage_counts_requests_and_their_audio(load, server):
    """Padding and warmups count, because they are billed; what the client repeats does not."""
    backend = load()
    client = backend.engine
    server.next.append(response(500, "{}", retry_after_ms="1"))
    transcribe(backend, noise(2.0, seed=1))
    backend.warmup()
    backend.close()

    assert (2, 3.0) == (client.usage.requests, client.usage.audio_seconds)
    assert 3 == server.arrivals


def test_the_log_names_the_endpoint_first_and_the_usage_last(server, caplog):
    """A connection without encryption is a warning; closing logs the usage."""
    with caplog.at_level("INFO", logger="wlk_whisper.openai_api.backend"):
        load_backend("openai-api", base_url="http://there.example/v1").close()
        load_backend("openai-api", base_url=server.url).close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert ["key and audio go to http://there.example/v1 without encryption"] == warnings
    assert f"audio goes to {server.url}, model whisper-1" in caplog.messages
    assert f"sent 0.0 s of audio in 0 requests to {server.url}" in caplog.messages
