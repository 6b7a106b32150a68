"""Failures of an endpoint, as one line each."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import response
from engine_call import transcribe

from wlk_core import BackendError


@pytest.mark.parametrize(
    ("respond", "message", "is_retryable"),
    [
        (response(200, "<html>sign in</html>", content_type="text/html"), "a page of HTML", False),
        (
            response(502, "<h1>Bad Gateway</h1>", retry_after_ms="1"),
            "502 .*HTML: Bad Gateway",
            True,
        ),
        (response(200, '{"text": "on'), "expected JSON", True),
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
        (
            response(307, "", location="http://127.0.0.1:9/"),
            "redirects to http://127.0.0.1:9/",
            False,
        ),
    ],
    ids=[
        "html", "html 502", "damaged", "no words", "429", "quota", "500", "400", "403", "redirect",
    ],
)  # fmt: skip
def test_an_invalid_response_is_one_line(load, server, respond, message, is_retryable):
    """The line has the URL, the response and its remedy; the error is retryable or not."""
    server.next.extend([respond] * 2)
    with pytest.raises(BackendError, match=message) as caught:
        transcribe(load(max_retries=1))

    assert is_retryable == caught.value.retryable
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_an_unknown_model_and_a_wrong_path_are_reported(load, server):
    """A 404 is either; the endpoint's own message is part of the line."""
    with pytest.raises(BackendError, match=r"`huge` does not exist.*no model huge"):
        load("huge").warmup()
    with pytest.raises(BackendError, match=r"Invalid URL.*the part before /audio/transcriptions"):
        load(base_url=server.url.removesuffix("/v1")).warmup()


def test_requests_to_busy_and_broken_servers_are_repeated(load, server, monkeypatch):
    """The client waits as Retry-After demands, else longer each time."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    server.next.extend(
        [
            response(429, "{}", retry_after="7"),
            response(503, "{}"),
            lambda handler: handler.break_off(),
        ]
    )
    hypothesis = transcribe(load(max_retries=3))

    assert hypothesis.words
    assert 4 == server.arrivals
    assert 7.0 == waits[0] > waits[2] > waits[1] > 0


def test_a_lost_connection_is_retryable(load, server):
    """A response that breaks off may be complete at the next attempt."""
    server.next.append(lambda handler: handler.break_off())
    with pytest.raises(BackendError, match=f"no connection to {server.url}, or it was lost") as e:
        transcribe(load(max_retries=0))

    assert e.value.retryable


def test_a_missing_server_is_retryable(load):
    """The message asks the user to check that the server runs."""
    with pytest.raises(BackendError, match=r"no connection to .*check that the server runs") as e:
        load(base_url="http://127.0.0.1:9/v1", max_retries=0).warmup()

    assert e.value.retryable


@pytest.mark.slow
def test_a_server_without_an_answer_times_out(load, server):
    """A request fails after its time, and the message names the option that allows more."""
    released = []
    server.next.append(lambda handler: released.append(handler.rfile.read(1)))
    with pytest.raises(BackendError, match=r"did not answer in time.*timeout_seconds") as e:
        transcribe(load(max_retries=0, timeout_seconds=0.2))

    assert e.value.retryable
