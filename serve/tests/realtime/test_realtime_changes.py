"""A configuration that changes in the middle: each stream ends, and no word of it is lost."""

from __future__ import annotations

import base64

import pytest

from wlk_core.errors import BackendError
from wlk_core.processor import StreamStats
from wlk_core.session.events import Commit, End, Endpoint, Failure, SpeechStarted

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


@pytest.fixture
def ended(client, protocol, streams, token):
    """Return a function that plays the end of the first stream before or after a message."""
    speech = [SpeechStarted(0.0, 1.0), Commit((token(" zero"),), 1.0), Endpoint(1.0, "end", 1.0)]
    events = {"speech": [*speech, END], "silence": [END], "no endpoint": [*speech[:2], END]}

    def ended(kind, *, when, message, **fields):
        """Return the messages of both."""
        happened = protocol.handle(streams[0], events[kind]) if when == "before" else []
        happened += client(message, **fields)
        return happened + (protocol.handle(streams[0], events[kind]) if when == "after" else [])

    return ended


def texts(messages):
    """Return the transcripts of completed items by their name; each was committed before."""
    items = [message["item_id"] for message in messages if message["type"].endswith(".committed")]
    completed = [message for message in messages if message["type"] == f"{ITEM}.completed"]
    assert items == [message["item_id"] for message in completed]
    assert not [message for message in messages if message["type"] == "error"]
    return {message["item_id"]: message["transcript"] for message in completed}


@pytest.mark.parametrize("message", ["commit", "wlk.end"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "text"), [("no endpoint", "zero"), ("silence", "")])
def test_audio_before_a_change_is_completed_by_a_later_commit(
    *, manual, ended, protocol, message, when, kind, text
):
    """Whether its stream has ended by then or not; the end of the session completes it too."""
    manual("append", audio=SECOND)
    manual("session.update", session=language("fr"))

    messages = ended(kind, when=when, message=message)

    assert {"item_1": text} == texts(messages)
    seconds = [item["usage"]["seconds"] for item in messages if "usage" in item]
    assert ([1.0], message == "wlk.end") == (seconds, protocol.audio.is_over)


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


@pytest.mark.parametrize(
    ("changes", "when"),
    [([], "after"), ([language("fr")], "after"), ([language("fr")], "before")],
    ids=["a live stream", "a stream that ends", "a stream that has ended"],
)
@pytest.mark.parametrize(("kind", "items"), [("speech", {"item_1": "zero"}), ("silence", {})])
def test_switching_the_detection_off_completes_what_it_detected(
    *, client, ended, changes, when, kind, items
):
    """The end of the stream is the end of its utterance; without speech there is no item."""
    client("append", audio=SECOND)
    for change in changes:
        client("session.update", session=change)

    messages = ended(kind, when=when, message="session.update", session=MANUAL)

    (error,) = client("commit")
    assert items == texts(messages)
    assert "input_audio_buffer_commit_empty" == error["error"]["code"]


@pytest.mark.parametrize(
    ("kind", "when", "items"),
    [
        ("speech", "before", {"item_1": "zero", "item_2": ""}),
        ("speech", "after", {"item_1": "zero"}),
        ("silence", "before", {"item_1": ""}),
        ("silence", "after", {"item_1": ""}),
    ],
)
def test_a_commit_is_answered_with_detection_too(client, ended, kind, when, items):
    """By the item of its audio, or by an empty one where that was completed before."""
    client("append", audio=SECOND)
    client("session.update", session=language("fr"))

    assert items == texts(ended(kind, when=when, message="commit"))


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


@pytest.mark.parametrize(
    "message", [{"kind": "append", "audio": SECOND}, {"kind": "wlk.mark", "id": "a"}],
    ids=["audio", "a mark"],
)  # fmt: skip
def test_committed_audio_that_waits_counts_after_a_clear(client, streams, message):
    """Its streams are not finished, so that another one is refused, and the audio is not taken."""
    client("session.update", session={**MANUAL, "include": ["wlk.marks"]})
    for _ in range(4):
        client("append", audio=SECOND)
        client("commit")
        client("clear")

    (error,) = client(**message)

    assert "rate_limit_exceeded" == error["error"]["code"]
    assert 4 == len(streams)
    assert "input_audio_buffer_commit_empty" == client("commit")[0]["error"]["code"]
