"""The messages of a session at a server with OpenAI's messages, one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wlk_core.plugins import Word
from wlk_realtime.engine.handshake import Handshake
from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError
from wlk_realtime.engine.openai import OpenAiDialect, OpenAiServer
from wlk_realtime.engine.pieces import STEP_SAMPLES

TRANSCRIPTION = "conversation.item.input_audio_transcription"
SECOND = np.linspace(-0.5, 0.5, 16_000, dtype=np.float32)
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 30 * 16_000).astype(np.float32)
SESSION = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}


def event(kind, **fields):
    """Return a message of the server."""
    return json.dumps({"type": kind, **fields})


def kinds(messages):
    """Return the type of each message."""
    return [json.loads(message)["type"].rpartition(".")[2] for message in messages]


@pytest.fixture
def dialect():
    """Return a session that is open."""
    dialect = OpenAiDialect(OpenAiServer())
    dialect.receive(event("session.updated", session=SESSION))
    return dialect


def test_deltas_are_shown_and_transcripts_are_final(dialect):
    """A server that decodes again at the end is right at the end."""
    dialect.send(SECOND, is_last=False)
    dialect.receive(event(f"{TRANSCRIPTION}.delta", delta="on two"))
    shown = dialect.take()
    sent = kinds(dialect.send(SECOND, is_last=True))
    is_answered = dialect.is_answered
    dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="one two"))
    final = dialect.take()

    assert ((), (Word(0.0, 0.5, "on"), Word(0.5, 1.0, " two"))) == (shown.words, shown.hypothesis)
    assert (["append", "commit"], False, True) == (sent, is_answered, dialect.is_answered)
    assert ((Word(0.0, 1.0, "one"), Word(1.0, 2.0, " two")), ()) == (final.words, final.hypothesis)
    assert 32_000 == final.processed_samples


def test_audio_after_the_end_of_an_item_waits_for_its_transcript(dialect):
    """An utterance without a pause is an item of 24 s and the rest."""
    first = kinds(dialect.send(NOISE, is_last=True))
    second = kinds(dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="one")))
    dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="two"))

    assert ["append", "commit"] == first == second
    assert dialect.is_answered
    assert ["one", " two"] == [word.text for word in dialect.take().words]


def test_pieces_of_an_utterance_that_is_sent_step_by_step_are_joined(dialect):
    """A transcript that came before the next audio was sent ends a piece, not the utterance."""
    transcripts = iter(["one", "two", "three"])
    for start in range(0, 30 * 16_000, STEP_SAMPLES):
        step = NOISE[start : start + STEP_SAMPLES]
        sent = dialect.send(step, is_last=start + STEP_SAMPLES == 30 * 16_000)
        if "commit" in kinds(sent):
            dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript=next(transcripts)))
    dialect.send(SECOND, is_last=True)
    dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript=next(transcripts)))

    assert ["one", " two", "three"] == [word.text for word in dialect.take().words]


@pytest.mark.parametrize(
    ("message", "error", "problem"),
    [
        (event(f"{TRANSCRIPTION}.delta"), ServerMessageError, "delta as text"),
        (event(f"{TRANSCRIPTION}.completed", transcript="one"), ServerMessageError, "too early"),
        (event(f"{TRANSCRIPTION}.failed", error={"message": "no"}), ServerRefusalError, "no"),
        (event("error", error={"message": "no", "code": "x"}), ServerRefusalError, "'no' .'x'"),
        (event("session.updated", session=[]), ServerMessageError, "without turn detection"),
        (event("session.updated")[:9], ServerMessageError, "JSON"),
    ],
)
def test_a_message_that_is_wrong_is_an_error(dialect, message, error, problem):
    """Nothing of it becomes a word."""
    dialect.send(SECOND, is_last=False)

    with pytest.raises(error, match=problem):
        dialect.receive(message)
    assert () == dialect.take().words


def test_text_without_audio_is_an_error(dialect):
    """It belongs to nothing."""
    with pytest.raises(ServerMessageError, match="without audio"):
        dialect.receive(event(f"{TRANSCRIPTION}.delta", delta="one"))


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [
        (event("session.updated", session={}), "session.created first"),
        (event("session.created", id="sess-1", created=1), "lists no model"),
        ("[]", "an object with a type"),
    ],
)
def test_a_greeting_that_is_none_is_an_error(greeting, problem):
    """The dialect cannot be found out, or the model."""
    with pytest.raises(ServerMessageError, match=problem):
        Handshake("auto", model=None, max_model_len=None).receive(greeting)
