"""The messages of a session at vLLM, one by one."""

from __future__ import annotations

import base64
import json

from bursts import STEP
import numpy as np
import pytest

from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError
from wlk_realtime.engine.vllm import VllmDialect, VllmServer

SERVER = VllmServer(
    model="voxtral", is_timed=True, prompt_steps=39, extra_steps=10, max_model_len=45_000
)


def steps(count):
    """Return noise of so many steps."""
    return np.random.default_rng(0).uniform(-0.5, 0.5, count * STEP).astype(np.float32)


def event(kind, **fields):
    """Return a message of the server."""
    return json.dumps({"type": kind, **fields})


def delta(text=""):
    """Return the text of a step."""
    return event("transcription.delta", delta=text)


def done(tokens):
    """Return the end of a generation."""
    return event("transcription.done", text="", usage={"completion_tokens": tokens})


def kinds(messages):
    """Return type and finality of each message."""
    parsed = map(json.loads, messages)
    return [(m["type"].rpartition(".")[2], m.get("final", False)) for m in parsed]


@pytest.fixture
def dialect():
    """Return a session that was greeted."""
    dialect = VllmDialect(SERVER)
    dialect.receive(event("session.created", id="sess-1", created=1))
    return dialect


def test_audio_is_sent_as_integers_in_whole_steps(dialect):
    """Louder samples are clipped, and silence completes the last step."""
    audio = np.array([0.5, -0.5, 2.0, -2.0], np.float32)

    _, append, _ = map(json.loads, dialect.send(audio, is_last=True))

    sent = np.frombuffer(base64.b64decode(append["audio"]), "<i2")
    assert STEP == len(sent)
    assert [16_384, -16_384, 32_767, -32_768, 0] == sent[:5].tolist()


@pytest.mark.parametrize(
    ("messages", "error", "problem"),
    [
        ([event("transcription.delta", delta=7)], ServerMessageError, "expected delta as text"),
        ([delta()] * 5, ServerMessageError, "text 5 came for 4 steps"),
        ([delta("<asr_text>one")], ServerRefusalError, "Qwen3-ASR"),
        ([done(0)], ServerRefusalError, "max_model_len"),
        ([delta("one")[:20]], ServerMessageError, "expected a JSON object"),
        ([event("error", error="no\nmemory", code="processing_error")], ServerRefusalError, "no m"),
    ],
    ids=[
        "a number", "text beyond the audio", "another model", "an end by itself",
        "half a message", "an error",
    ],
)  # fmt: skip
def test_a_message_that_vllm_does_not_send_is_an_error(dialect, messages, error, problem):
    """One line, and no word of it."""
    dialect.send(steps(4), is_last=False)

    with pytest.raises(error, match=problem) as raised:
        for message in messages:
            dialect.receive(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("deltas", "tokens"), [(14, 15), (13, 13), (14, None)], ids=["tokens", "steps", "no count"]
)
def test_counts_that_disagree_are_an_error(dialect, deltas, tokens):
    """Audio was dropped, or texts were merged: words would have wrong times."""
    dialect.send(steps(4), is_last=True)
    for _ in range(deltas):
        dialect.receive(delta())

    with pytest.raises(ServerMessageError, match="which are 14 of each"):
        dialect.receive(done(tokens))


def test_text_without_audio_is_an_error(dialect):
    """As is an end that comes twice."""
    for message in (delta("one"), done(10)):
        with pytest.raises(ServerMessageError):
            dialect.receive(message)


@pytest.mark.parametrize(
    ("code", "is_retryable"), [("model_not_found", False), ("processing_error", True)]
)
def test_an_error_of_the_engine_can_be_tried_again(dialect, code, is_retryable):
    """What another session would repeat cannot."""
    with pytest.raises(ServerRefusalError) as raised:
        dialect.receive(event("error", error="wrong", code=code))
    assert is_retryable == raised.value.is_retryable
