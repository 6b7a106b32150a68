"""Failures of a server, each an error of one line."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import FAULTS, response, transcribe

from wlk_conformance.testing import load_clip
from wlk_core import BackendError
from wlk_whisper.openai_api.response import MAX_CHARACTERS

AUDIO = load_clip("demo").audio[:16_000]


@pytest.fixture
def pauses(monkeypatch):
    """Return the pauses that the official client makes, without waiting for them."""
    made = []

    monkeypatch.setattr("time.sleep", made.append)
    return made


@pytest.mark.parametrize(
    ("respond", "message", "is_retryable"),
    [
        (response(200, "<html>sign in</html>", content_type="text/html"), "a page of HTML", False),
        (response(502, "<h1>Bad Gateway</h1>", retry_after_ms="1"), "502 .*Bad Gateway", True),
        (response(200, " " * (MAX_CHARACTERS + 1)), "got 1048577 characters", False),
        (response(200, '{"text": "on'), "Invalid JSON", True),
        (response(200, '{"text": ' + "[" * 100_000), "Invalid JSON", True),
        (response(200, {"error": "no"}), "text: Field required", False),
        (response(200, {"text": "a", "words": [{"word": 1}]}), r"words\.0\.word: .*string", False),
        (response(200, {"text": "one two"}), "without `words`", False),
        (response(429, {"error": {"message": "slow"}}, retry_after_ms="1"), r"429 \(slow\)", True),
        (
            response(429, {"error": {"code": "insufficient_quota"}}, retry_after_ms="1"),
            "quota of this key is used up",
            False,
        ),
        (response(500, "", retry_after_ms="1"), "answered 500", True),
        (response(400, {"error": {"message": "no verbose_json"}}), "no verbose_json", False),
        (response(403, {"error": {"message": "region"}}), "OPENAI_API_KEY", False),
        (response(307, "", location="http://127.0.0.1:9/"), "redirects, but the key and", False),
    ],
    ids=[
        "html", "html 502", "long", "damaged", "deep", "no text", "a number", "no words", "429",
        "quota", "500", "400", "403", "redirect",
    ],
)  # fmt: skip
def test_an_invalid_response_is_one_line(load, server, respond, message, is_retryable):
    """The line has the URL, the response and its remedy; the error is retryable or not."""
    server.next.extend([respond] * 2)
    with pytest.raises(BackendError, match=message) as caught:
        transcribe(load(max_retries=1))

    assert caught.value.retryable == is_retryable
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_model_and_a_wrong_path_are_reported(load, server):
    """A 404 is either; the server's own message is part of the line."""
    with pytest.raises(BackendError, match=r"`huge` does not exist.*no model huge"):
        load("huge").warmup()
    with pytest.raises(BackendError, match=r"Invalid URL.*the part before /audio/transcriptions"):
        load(base_url=server.url.removesuffix("/v1")).warmup()


def test_requests_to_busy_and_broken_servers_are_repeated(load, server, pauses):
    """The client waits as Retry-After demands, else longer each time."""
    server.next.extend([response(429, "{}", retry_after="7"), FAULTS[0], FAULTS[3]])
    hypothesis = transcribe(load(max_retries=3))

    assert hypothesis.words
    assert server.arrivals == 4
    assert 7.0 == pauses[0] > pauses[2] > pauses[1] > 0


@pytest.mark.parametrize("max_retries", [0, 3])
def test_the_attempts_of_client_and_session_do_not_multiply(load, server, pauses, max_retries):
    """A server that keeps failing gets one request and as many retries as the option allows."""
    server.next.extend([response(500, "{}")] * 20)
    stream = load(max_retries=max_retries).create_processor(tick_seconds=1.0)
    stream.insert_audio_chunk(AUDIO)
    with pytest.raises(BackendError, match="answered 500") as e:
        stream.process_iter()
    server.next.clear()

    assert e.value.is_exhausted  # so that a session does not make the call again
    assert server.arrivals == 1 + max_retries
    assert len(pauses) == max_retries


def test_a_missing_server_is_reported_after_seconds(load, pauses):
    """A user waits only for three refused retries and the pauses between them."""
    stream = load(base_url="http://127.0.0.1:9/v1").create_processor(tick_seconds=1.0)
    stream.insert_audio_chunk(AUDIO)
    with pytest.raises(BackendError, match=r"cannot be reached.*check that it is running") as e:
        stream.process_iter()

    assert e.value.retryable
    assert e.value.is_exhausted
    assert len(pauses) == 3
    assert sum(pauses) <= 3.5


def test_a_server_that_never_answers_is_reported(load, server):
    """The message names the option that allows more time."""
    server.next.append(lambda handler: handler.rfile.read(1))  # until the client is gone
    stream = load(timeout_seconds=0.3, max_retries=0).create_processor(tick_seconds=1.0)
    stream.insert_audio_chunk(AUDIO)
    with pytest.raises(BackendError, match=r"did not answer in time.*timeout_seconds") as e:
        stream.process_iter()

    assert e.value.retryable
    assert e.value.is_exhausted
    assert server.arrivals == 1
