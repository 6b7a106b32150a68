"""Repeated requests: which pause comes before each, and that failures which pass lose nothing."""

from __future__ import annotations

from email.utils import formatdate
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import FAULTS, response
from hypothesis import given
from hypothesis import strategies as st
import openai

from wlk_core import BackendError
from wlk_core.session.calls import attempt
from wlk_core.testing import StreamDriver, load_clip
from wlk_whisper.openai_api.call_limits import CallLimits, CallTimeout
from wlk_whisper.openai_api.response import ResponseError
from wlk_whisper.openai_api.retries import repeat
from wlk_whisper.openai_api.retry_after import requested_pause

BUSY = response(500, "{}")


@pytest.fixture
def pauses(monkeypatch):
    """Return the pauses made, none of which takes time."""
    made = []
    monkeypatch.setattr("time.sleep", made.append)
    return made


def status_error(headers):
    """Return the official client's error of a busy endpoint."""
    error = openai.APIStatusError.__new__(openai.APIStatusError)
    error.response, error.status_code, error.code = SimpleNamespace(headers=headers), 429, None
    return error


def failing(*errors):
    """Return a function that raises *errors* in turn, then returns a text."""
    upcoming = list(errors)

    def send():
        if upcoming:
            raise upcoming.pop(0)
        return "answer"

    return send


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": formatdate(0)}, 0.0),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Sun, 99 Foo 99999 25:61:61 GMT"}, None),
    ],
)
def test_the_endpoint_may_request_a_pause(headers, seconds):
    """A pause is seconds, milliseconds or a date; anything else is as if it were absent."""
    assert seconds == requested_pause(status_error(headers))


def test_a_pause_until_a_date_counts_from_now():
    """The header is a date of the calendar."""
    pause = requested_pause(status_error({"retry-after": formatdate(time.time() + 3600)}))

    assert 3500.0 < pause <= 3600.0


@given(value=st.text(max_size=40))
def test_any_header_is_a_pause_or_none(value):
    """A header can neither raise nor make a pause that is negative or no number."""
    pause = requested_pause(status_error({"retry-after": value}))

    assert pause is None or 0.0 <= pause < float("inf")


def test_pauses_double_up_to_a_limit(pauses):
    """Each is up to a quarter shorter, so that clients do not come back together."""
    limits = CallLimits.of_seconds(600.0)
    errors = [ResponseError("cut off", is_damaged=True) for _ in range(7)]

    assert "answer" == repeat(failing(*errors), max_retries=7, limits=limits)
    for pause, longest in zip(pauses, (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0), strict=True):
        assert 0.75 * longest <= pause <= longest


@pytest.mark.parametrize(
    ("max_retries", "seconds", "error"),
    [
        (0, 600.0, ResponseError("cut off", is_damaged=True)),
        (3, 0.0, ResponseError("cut off", is_damaged=True)),
        (3, 600.0, ResponseError("a page of HTML")),
        (3, 0.0, CallTimeout("no time left")),
    ],
    ids=["no attempt left", "no time left", "permanent", "timeout"],
)
def test_a_request_that_cannot_succeed_is_not_repeated(pauses, max_retries, seconds, error):
    """Attempts, time and the kind of failure each end the repetition."""
    limits = CallLimits.of_seconds(seconds)
    with pytest.raises(type(error)):
        repeat(failing(error), max_retries=max_retries, limits=limits)

    assert [] == pauses


@pytest.mark.parametrize("max_retries", [0, 3])
def test_the_attempts_of_client_and_session_do_not_multiply(load, server, pauses, max_retries):
    """A server that stays broken gets one request and the repetitions that the option names."""
    server.next.extend([BUSY] * 20)
    stream = load(max_retries=max_retries).create_processor(tick_seconds=1.0)
    stream.insert_audio_chunk(load_clip("demo").audio[:16_000])
    with pytest.raises(BackendError, match="answered 500"):
        attempt(stream.process_iter)
    server.next.clear()

    assert 1 + max_retries == server.arrivals
    assert max_retries == len(pauses)
    assert sum(pauses) <= 3.5


def test_a_dead_server_is_reported_after_seconds(load, pauses):
    """Three refused repetitions and their pauses are all that a user waits for."""
    stream = load(base_url="http://127.0.0.1:9/v1").create_processor(tick_seconds=1.0)
    stream.insert_audio_chunk(load_clip("demo").audio[:16_000])
    with pytest.raises(BackendError, match="no connection to http://127"):
        attempt(stream.process_iter)

    assert 3 == len(pauses)
    assert sum(pauses) <= 3.5


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS[:5], ids=["500", "429", "gone", "cut off", "damaged"])
def test_a_failure_that_passes_loses_no_word(load, server, pauses, fault):
    """Every tick of a stream fails twice and is repeated; the caller sees no error."""
    clip = load_clip("demo")
    driver = StreamDriver(load().create_processor(buffer_seconds=4.0))
    for first in range(0, len(clip.audio), 32_000):
        server.next.extend([fault, fault])
        driver.feed(clip.audio[first : first + 32_000], chunk_seconds=2.0)
    server.next.clear()
    driver.finish()

    assert [word.text.strip() for word in clip.words] == [
        token.text.strip() for token in driver.tokens
    ]
    assert len(pauses) >= 2
