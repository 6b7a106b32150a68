"""A configuration that changes in the middle: each stream ends, and no word of it is lost."""

from __future__ import annotations

import base64

import pytest

from wlk_core.errors import BackendError
from wlk_core.processor import StreamStats
from wlk_core.session.events import Commit, End, Endpoint, Failure

ITEM = "conversation.item.input_audio_transcription"
SECOND = base64.b64encode(bytes(48_000)).decode()  # of 16-bit samples at 24 kHz
MANUAL = {"audio": {"input": {"turn_detection": None}}}
DETECTION = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
END = End(audio_time=1.0, stats=StreamStats(), latency=None)


def language(name):
    """Return a session with another language, which needs another stream."""
    return {"audio": {"input": {"transcription": {"language": name}}}}


@pytest.fixture
def manual(client):
    """Return the client of a session in which the client commits."""
    client("session.update", session=MANUAL)
    return client


def texts(messages):
    """Return the transcripts of completed items by their name; each was committed before."""
    items = [message["item_id"] for message in messages if message["type"].endswith(".committed")]
    completed = [message for message in messages if message["type"] == f"{ITEM}.completed"]
    assert items == [message["item_id"] for message in completed]
    assert not [message for message in messages if message["type"] == "error"]
    return {message["item_id"]: message["transcript"] for message in completed}


@pytest.mark.parametrize(("first", "text"), [(" un", "zero un"), ("un", "zero un"), (".", "zero.")])
def test_an_item_goes_on_after_a_change(*, manual, protocol, streams, token, first, text):
    """A commit covers all audio since the last one, of two streams here, whose words stay apart."""
    manual("append", audio=SECOND)
    manual("session.update", session=language("fr"))
    manual("append", audio=SECOND)
    messages = manual("commit")
    messages += protocol.handle(streams[0], [Commit((token(" zero"),), 1.0), END])
    events = [Commit((token(first),), 1.0), Endpoint(1.0, "commit", 1.0)]
    messages += protocol.handle(streams[1], events)

    assert {"item_1": text} == texts(messages)


@pytest.mark.parametrize("session", [MANUAL, DETECTION], ids=["manual", "detection"])
def test_a_stream_that_fails_after_a_commit_completes_nothing(client, protocol, streams, session):
    """The item is reported once, as one that failed."""
    client("session.update", session=session)
    client("append", audio=SECOND)
    client("session.update", session=language("fr"))
    client("commit")
    failure = Failure(BackendError("the engine broke"), is_final=True, audio_time=1.0)

    (message,) = protocol.handle(streams[0], [failure, END])

    assert (f"{ITEM}.failed", "item_1") == (message["type"], message["item_id"])


def test_a_fifth_unfinished_stream_is_refused_before_anything_changes(manual, protocol, streams):
    """The configuration stays, its audio is taken, and another attempt later succeeds."""
    for name in ("en", "fr", "en", "fr"):
        manual("session.update", session=language(name))
        manual("append", audio=SECOND)

    (error,) = manual("session.update", session=language("en"))
    assert [] == manual("append", audio=SECOND)
    protocol.handle(streams[0], [END])
    (updated,) = manual("session.update", session=language("en"))

    assert ("rate_limit_error", "rate_limit_exceeded") == (
        error["error"]["type"], error["error"]["code"],
    )  # fmt: skip
    assert [("receive", 48_000)] * 2 == streams[3].calls[:2]
    assert "en" == updated["session"]["audio"]["input"]["transcription"]["language"]
    assert 4 == len(streams)
