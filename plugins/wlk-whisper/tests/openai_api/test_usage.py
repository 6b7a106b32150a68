"""Usage of an endpoint, counted and logged."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import response
from engine_call import EMPTY, transcribe

from wlk_core import BackendError, load_backend
from wlk_core.testing import noise


def test_usage_counts_every_attempt_that_is_sent(load, server):
    """Attempts that the client repeats count like the others."""
    backend = load()
    client = backend.engine
    server.next.append(response(500, "{}", retry_after_ms="1"))
    transcribe(backend, noise(2.0, seed=1))
    backend.warmup()
    backend.close()

    assert 3 == client.usage.requests == server.arrivals
    assert 5.0 == client.usage.audio_seconds


def test_a_refused_connection_is_no_usage(load):
    """A refused connection sends no audio."""
    backend = load(base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(BackendError, match="no connection"):
        backend.warmup()

    assert (0, 0.0) == (backend.engine.usage.requests, backend.engine.usage.audio_seconds)


def test_opening_a_tunnel_through_a_proxy_is_no_usage(load, server):
    """CONNECT is a request of the HTTP library like the one for the endpoint, without audio."""
    meter = load().engine.meter
    for method, protocol in ((b"CONNECT", "http11"), (b"POST", "http11"), (b"POST", "http2")):
        request = SimpleNamespace(method=method, extensions={})
        meter.watch(request)
        with meter.sending(2.0):
            for event in ("send_request_headers.started", "send_request_body.started"):
                request.extensions["trace"](f"{protocol}.{event}", {"request": request})

    assert (2, 4.0) == (meter.usage.requests, meter.usage.audio_seconds)
    assert 0 == server.arrivals


def test_streams_that_outlive_the_backend_continue_to_count(load, server):
    """Their requests cost money as well."""
    backend = load()
    client = backend.engine
    stream = backend.create_processor()
    backend.close()
    server.next.append(response(200, EMPTY))
    stream.insert_audio_chunk(noise(1.5, seed=1))
    stream.finish()

    assert (1, 1.5) == (client.usage.requests, client.usage.audio_seconds)


def test_the_log_names_the_endpoint_first_and_the_usage_last(server, caplog):
    """A connection without encryption is a warning; closing logs the usage."""
    with caplog.at_level("INFO", logger="wlk_whisper.openai_api.backend"):
        load_backend("openai-api", base_url="http://there.example/v1").close()
        load_backend("openai-api", base_url=server.url).close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert ["key and audio go to http://there.example/v1 without encryption"] == warnings
    assert f"audio goes to {server.url}, model whisper-1" in caplog.messages
    assert f"sent 0.0 s of audio in 0 requests to {server.url}" in caplog.messages
