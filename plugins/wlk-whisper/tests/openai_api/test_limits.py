"""A server cannot take more memory or time than a call may have."""

from __future__ import annotations

import time
import tracemalloc

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import response
from engine_call import transcribe
from hostile_responses import BODY, TRICKLES, Endless, compressed

from wlk_core import BackendError
from wlk_core.session.calls import attempt
from wlk_core.testing import noise
from wlk_whisper.openai_api.call_limits import MAX_ANSWER_BYTES, MAX_ERROR_BYTES, CallLimits

AUDIO = noise(1.0, seed=1)
GONE_SECONDS = 30.0  # for the server to see that the client is gone, on a busy machine


def failure_of(backend):
    """Return the error of a request, and the bytes that it took at most."""
    tracemalloc.start()
    try:
        with pytest.raises(BackendError) as caught:
            transcribe(backend, AUDIO)
        return caught.value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_answer_is_read_up_to_the_limit(load, server, encoding):
    """Sixty-four megabytes in sixty-four kilobytes end at the limit, which the error names."""
    server.next.append(compressed(encoding))
    error, peak = failure_of(load())

    assert f"at most {MAX_ANSWER_BYTES} bytes, got more" in str(error)
    assert not error.retryable
    assert 1 == server.arrivals
    assert peak < 16 * MAX_ANSWER_BYTES


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "x\x1b[31m"])
def test_an_answer_in_another_compression_is_refused(load, server, encoding):
    """Their decoders have no bound, and neither has one decoder after another."""
    server.next.append(lambda handler: handler.reply(200, b"", "", {"content-encoding": encoding}))
    with pytest.raises(BackendError, match="without compression or as gzip") as caught:
        transcribe(load(max_retries=0), AUDIO)

    assert str(caught.value).isprintable()


def test_a_compressed_answer_is_understood(load, server):
    """A proxy that compresses answers changes nothing."""
    server.next.append(compressed("gzip", megabytes=0))
    with pytest.raises(BackendError, match="expected JSON, got ''"):
        transcribe(load(max_retries=0), AUDIO)


def test_an_endless_answer_ends_at_the_limit(load, server):
    """A flood is neither collected nor read to its end."""
    flood = Endless(BODY, b" " * 65_536)
    server.next.append(flood)
    error, peak = failure_of(load())

    assert "bytes, got more" in str(error)
    assert flood.ended.wait(GONE_SECONDS)
    assert peak < 16 * MAX_ANSWER_BYTES


def test_of_an_endless_error_the_beginning_is_read(load, server):
    """The status and the first words of the body are enough for the message."""
    flood = Endless(b"HTTP/1.1 400 No\r\n\r\nno room", b" " * 65_536)
    server.next.append(flood)
    error, peak = failure_of(load())

    assert "answered 400 (no room)" in str(error)
    assert flood.ended.wait(GONE_SECONDS)
    assert peak < 64 * MAX_ERROR_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("part", TRICKLES)
def test_a_server_that_trickles_is_waited_for_once(load, server, part):
    """The time of a call is that of all its reads together, and is not spent twice."""
    trickle = Endless(*TRICKLES[part], paced=True)
    server.next.append(trickle)
    stream = load(timeout_seconds=0.3).create_processor(tick_seconds=1.0)
    stream.insert_audio_chunk(AUDIO)
    began = time.monotonic()
    with pytest.raises(BackendError, match=r"did not answer in time.*timeout_seconds") as caught:
        attempt(stream.process_iter)

    assert caught.value.retryable
    assert caught.value.is_exhausted
    assert 0.3 <= time.monotonic() - began
    assert trickle.ended.wait(GONE_SECONDS)
    assert 1 == server.arrivals


def test_no_pause_outlasts_the_call(load, server, monkeypatch):
    """A pause that is longer than the rest of the call is not begun; the message names both."""
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    server.next.append(response(429, "{}", retry_after="90"))
    with pytest.raises(BackendError, match=r"a pause of 90 s.*timeout_seconds") as caught:
        transcribe(load(timeout_seconds=60.0), AUDIO)

    assert caught.value.retryable
    assert [] == pauses
    assert 1 == server.arrivals


def test_a_call_that_is_over_sends_nothing(load, server):
    """A connection that is open is not written to after the time of its call."""
    client = load().engine
    transcribe_once = server.arrivals
    with CallLimits.of_seconds(-1.0).applied(), pytest.raises(TimeoutError):
        client._client._client.get(f"{server.url}/models")

    assert transcribe_once == server.arrivals
