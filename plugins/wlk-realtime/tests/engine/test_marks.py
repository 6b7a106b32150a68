from __future__ import annotations

import json

import numpy as np
import pytest

from wlk_realtime.engine.marks import MarksDialect
from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError
from wlk_realtime.engine.requests import SessionConfig

FORMAT = {"type": "audio/wlk-f32le", "rate": 16_000}
SECOND = np.linspace(-1, 1, 16_000, dtype=np.float32)


def updated(**changes):
    """Return the server's configuration."""
    session = {"include": ["wlk.marks"], "audio": {"input": {"format": FORMAT}}, **changes}
    return json.dumps({"type": "session.updated", "session": session})


def marked(name="1", *, words=(), hypothesis=(), upto=1.0, **fields):
    """Return the answer to a mark."""

    def records(words):
        return [
            {"start": start, "end": end, "text": text, "probability": 0.5, "language": "en"}
            for start, end, text in words
        ]

    message = {
        "type": "wlk.marked",
        "id": name,
        "tokens": records(words),
        "hypothesis": records(hypothesis),
        "processed_up_to": upto,
        "stats": {"encoder_frames": 100, "state_bytes": 7, "misplaced_words": 1},
    }
    return json.dumps({**message, **fields})


@pytest.fixture
def dialect():
    """Return a session to which a second was sent."""
    dialect = MarksDialect(SessionConfig(), model=None)
    dialect.receive(updated())
    dialect.send(SECOND, is_last=False)
    return dialect


def test_a_session_is_configured_with_model_language_and_prompt():
    """Without turn detection, with marks, and with samples as floats."""
    dialect = MarksDialect(SessionConfig(language="de", prompt="names"), model="small")

    (message,) = map(json.loads, dialect.begin())

    source = message["session"]["audio"]["input"]
    assert ("session.update", ["wlk.marks"]) == (message["type"], message["session"]["include"])
    assert {"model": "small", "language": "de", "prompt": "names"} == source["transcription"]
    assert (FORMAT, None) == (source["format"], source["turn_detection"])


@pytest.mark.parametrize(
    "text",
    [
        marked("2"),
        marked(upto=1.5),
        marked(upto=None),
        marked(words=[(0.5, 1.5, " one")]),
        marked(words=[(0.5, 0.6, " one")], hypothesis=[(0.1, 0.2, " two")]),
        marked(tokens="one"),
    ],
    ids=[
        "another mark", "beyond the audio", "no time", "word beyond the audio",
        "hypothesis goes back", "no list",
    ],
)  # fmt: skip
def test_an_answer_with_something_wrong_changes_nothing(dialect, text):
    """Nothing of it reaches the stream."""
    with pytest.raises(ServerMessageError):
        dialect.receive(text)

    assert not dialect.is_answered
    assert () == dialect.take().words


def test_a_clock_that_goes_back_is_refused(dialect):
    """As is an answer that comes twice."""
    dialect.receive(marked(upto=0.8))
    with pytest.raises(ServerMessageError, match="mark"):
        dialect.receive(marked(upto=0.8))
    dialect.send(SECOND, is_last=False)

    with pytest.raises(ServerMessageError, match=r"processed_up_to as a time from 0\.800 to"):
        dialect.receive(marked("2", upto=0.5))


@pytest.mark.parametrize(
    ("kind", "code", "is_retryable"),
    [
        ("error", "model_not_found", False),
        ("error", "session_expired", True),
        ("conversation.item.input_audio_transcription.failed", None, True),
    ],
)
def test_an_error_of_the_server_ends_the_request(dialect, kind, code, is_retryable):
    """What another session would repeat is not retryable; an engine that failed is."""
    error = {"message": "no\nsuch thing", "code": code}

    with pytest.raises(ServerRefusalError, match="no such thing") as raised:
        dialect.receive(json.dumps({"type": kind, "error": error}))
    assert is_retryable == raised.value.is_retryable
