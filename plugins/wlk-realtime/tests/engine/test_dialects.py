"""Each dialect sends and validates the messages of its kind of server."""

from __future__ import annotations

import base64
import json

from bursts import STEP
import numpy as np
import pytest

from wlk_core.plugins import Word
from wlk_realtime.engine.handshake import Handshake
from wlk_realtime.engine.marks import MarksDialect
from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError
from wlk_realtime.engine.openai import OpenAiDialect, OpenAiServer
from wlk_realtime.engine.requests import SessionConfig
from wlk_realtime.engine.vllm import VllmDialect, VllmServer

TRANSCRIPTION = "conversation.item.input_audio_transcription"
FORMAT = {"type": "audio/wlk-f32le", "rate": 16_000}
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 30 * 16_000).astype(np.float32)
SECOND, FOUR_STEPS = NOISE[:16_000], NOISE[: 4 * STEP]  # a step is 80 ms


def event(kind, **fields):
    """Return a message of the server."""
    return json.dumps({"type": kind, **fields})


def kinds(messages):
    """Return the type of each message."""
    return [json.loads(message)["type"].rpartition(".")[2] for message in messages]


def marks():
    """Return an open session at a wlk-serve."""
    dialect = MarksDialect(SessionConfig(), model=None)
    session = {"include": ["wlk.marks"], "audio": {"input": {"format": FORMAT}}}
    dialect.receive(event("session.updated", session=session))
    return dialect


def openai():
    """Return an open session at a server that speaks OpenAI's protocol."""
    dialect = OpenAiDialect(OpenAiServer())
    session = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
    dialect.receive(event("session.updated", session=session))
    return dialect


def vllm():
    """Return an open session at vLLM."""
    server = VllmServer(
        model="voxtral", is_timed=True, prompt_steps=39, extra_steps=10, max_model_len=45_000
    )
    dialect = VllmDialect(server)
    dialect.receive(event("session.created", id="sess-1", created=1))
    return dialect


def marked(name="1", **fields):
    """Return the answer to a mark."""
    empty = {"tokens": [], "hypothesis": [], "processed_up_to": 0.3, "stats": {}}
    return event("wlk.marked", id=name, **empty | fields)


def word(**changes):
    """Return an answer to a mark with one word."""
    record = {"text": " one", "start": 0.1, "end": 0.2, "probability": 0.25, **changes}
    return marked(tokens=[record])


def delta(text=""):
    """Return the delta of a step at vLLM."""
    return event("transcription.delta", delta=text)


def done(tokens):
    """Return the end of a generation at vLLM."""
    return event("transcription.done", text="", usage={"completion_tokens": tokens})


@pytest.mark.parametrize(
    ("opened", "messages", "problem"),
    [
        (marks, ["nonsense"], "expected a JSON object"),
        (marks, ["[]"], "an object with a type"),
        (marks, ['{"type": 7}'], "an object with a type"),
        (marks, [marked("2")], "expected mark 1 of 1, got '2'"),
        (marks, [marked(), marked()], "expected mark"),
        (marks, [marked(processed_up_to=1.5)], "processed_up_to as a time from 0.000"),
        (marks, [marked(processed_up_to=None)], "processed_up_to"),
        (marks, [marked(tokens="one")], "array"),
        (marks, [marked(hypothesis=[{"text": " two", "start": -1.0, "end": 0.2}])], "outside of"),
        (marks, [word(text=None)], "text"),
        (marks, [word(text="a" * 1001)], "text"),
        (marks, [word(start=-1.0)], "outside of 0.000-0.320"),
        (marks, [word(start=10**400)], "start"),
        (marks, [word(end=float("nan"))], "outside of"),
        (marks, [word(end=1.5)], "outside of"),
        (marks, [word(probability=1.5)], "probability"),
        (marks, [word(probability=True)], "probability"),
        (openai, [event(f"{TRANSCRIPTION}.delta")], "delta as text"),
        (openai, [event(f"{TRANSCRIPTION}.completed", transcript="one")], "too early"),
        (openai, [event(f"{TRANSCRIPTION}.failed", error={"message": "no"})], "no"),
        (openai, [event("error", error={"message": "no", "code": "x"})], "'no' .'x'"),
        (openai, [event("session.updated", session=[])], "without turn detection"),
        (vllm, [event("transcription.delta", delta=7)], "expected delta as text"),
        (vllm, [delta()] * 5, "got delta 5 for 4 steps"),
        (vllm, [delta("<asr_text>one")], "Qwen3-ASR"),
        (vllm, [done(0)], "max_model_len"),
        (vllm, [event("error", error="no\nmemory", code="processing_error")], "no memory"),
    ],
)
def test_a_wrong_message_is_an_error(opened, messages, problem):
    """The error is one line, and no part of the message becomes a word."""
    dialect = opened()
    dialect.send(FOUR_STEPS, is_last=False)

    with pytest.raises((ServerMessageError, ServerRefusalError), match=problem) as raised:
        for message in messages:
            dialect.receive(message)
    assert "\n" not in str(raised.value)
    assert dialect.take().words == ()


@pytest.mark.parametrize(
    ("opened", "message"),
    [
        (openai, event(f"{TRANSCRIPTION}.delta", delta="one")),
        (vllm, delta("one")),
        (vllm, done(10)),
    ],
)
def test_text_without_audio_is_an_error(opened, message):
    """The same holds for the end of a generation that has not begun."""
    with pytest.raises(ServerMessageError):
        opened().receive(message)


@pytest.mark.parametrize(
    ("opened", "kind", "code", "is_retryable"),
    [
        (marks, "error", "model_not_found", False),
        (marks, "error", "session_expired", True),
        (marks, f"{TRANSCRIPTION}.failed", None, True),
        (vllm, "error", "model_not_found", False),
        (vllm, "error", "processing_error", True),
    ],
)
def test_an_error_of_the_server_ends_the_request(opened, kind, code, is_retryable):
    """An error that would recur in another session is not retryable; a failed engine is."""
    text = "no\nsuch thing"
    error = text if opened is vllm else {"message": text, "code": code}

    with pytest.raises(ServerRefusalError, match="no such thing") as raised:
        opened().receive(event(kind, error=error, code=code))
    assert raised.value.is_retryable == is_retryable


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [
        (event("session.updated", session={}), "session.created first"),
        (event("session.created", id="sess-1", created=1), "lists no model"),
        ("[]", "an object with a type"),
    ],
)
def test_a_greeting_that_is_none_is_an_error(greeting, problem):
    """The dialect or the model cannot be detected."""
    with pytest.raises(ServerMessageError, match=problem):
        Handshake("auto", model=None, max_model_len=None).receive(greeting)


def test_a_session_with_marks_is_configured_with_model_language_and_prompt():
    """Turn detection is off, marks are on, and samples are floats."""
    dialect = MarksDialect(SessionConfig(language="de", prompt="names"), model="small")

    (message,) = map(json.loads, dialect.begin())

    source = message["session"]["audio"]["input"]
    assert (message["type"], message["session"]["include"]) == ("session.update", ["wlk.marks"])
    assert source["transcription"] == {"model": "small", "language": "de", "prompt": "names"}
    assert (source["format"], source["turn_detection"]) == (FORMAT, None)


def test_a_clock_that_goes_back_is_refused():
    """`processed_up_to` must not decrease: later words would be out of order."""
    dialect = marks()
    dialect.send(SECOND, is_last=False)
    dialect.receive(marked(processed_up_to=0.8))
    dialect.send(SECOND, is_last=False)

    with pytest.raises(ServerMessageError, match=r"processed_up_to as a time from 0\.800 to"):
        dialect.receive(marked("2", processed_up_to=0.5))


def test_deltas_are_shown_and_transcripts_are_final():
    """The transcript counts if a server decodes the item again at its end."""
    dialect = openai()
    dialect.send(SECOND, is_last=False)
    dialect.receive(event(f"{TRANSCRIPTION}.delta", delta="on two"))
    shown = dialect.take()
    sent = kinds(dialect.send(SECOND, is_last=True))
    is_answered = dialect.is_answered
    dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="one two"))
    final = dialect.take()

    assert (shown.words, shown.hypothesis) == ((), (Word(0.0, 0.5, "on"), Word(0.5, 1.0, " two")))
    assert (sent, is_answered, dialect.is_answered) == (["append", "commit"], False, True)
    assert (final.words, final.hypothesis) == ((Word(0.0, 1.0, "one"), Word(1.0, 2.0, " two")), ())
    assert final.processed_samples == 32_000


def test_each_utterance_is_resampled_alone_and_to_its_last_sample():
    """The resampler keeps nothing of an utterance back, and nothing of it for the next one."""
    dialect, utterances = openai(), []
    tone = 0.5 * np.sin(2 * np.pi * 200 * np.arange(16_001) / 16_000).astype(np.float32)
    for _ in range(2):
        messages = [
            message
            for start in range(0, len(tone), STEP)
            for message in dialect.send(
                tone[start : start + STEP], is_last=start + STEP >= len(tone)
            )
        ]
        appended = (json.loads(message).get("audio", "") for message in messages)
        data = b"".join(base64.b64decode(audio) for audio in appended)
        utterances.append(np.frombuffer(data, "<i2") / 32_768)
        dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="one"))

    assert [len(utterance) for utterance in utterances] == [24_002, 24_002]
    np.testing.assert_array_equal(utterances[1], utterances[0])
    times = np.arange(24_002) / 24_000
    expected = 0.5 * np.sin(2 * np.pi * 200 * times)
    # The filter sees zeros outside the utterance, so its outermost 2 ms are not compared.
    np.testing.assert_allclose(utterances[0][48:-48], expected[48:-48], atol=0.005)


def test_audio_after_the_end_of_an_item_waits_for_its_transcript():
    """An utterance without a pause becomes an item of 24 s and an item with the rest."""
    dialect = openai()
    first = kinds(dialect.send(NOISE, is_last=True))
    second = kinds(dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="one")))
    dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript="two"))

    assert first == ["append", "commit"]
    assert second == ["append", "commit"]
    assert dialect.is_answered
    assert [word.text for word in dialect.take().words] == ["one", " two"]


def test_pieces_of_an_utterance_that_is_sent_step_by_step_are_joined():
    """A transcript that comes before the next audio ends a piece, not the utterance."""
    dialect, transcripts = openai(), iter(["one", "two", "three"])
    for start in range(0, len(NOISE), STEP):
        sent = dialect.send(NOISE[start : start + STEP], is_last=start + STEP == len(NOISE))
        if "commit" in kinds(sent):
            dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript=next(transcripts)))
    dialect.send(SECOND, is_last=True)
    dialect.receive(event(f"{TRANSCRIPTION}.completed", transcript=next(transcripts)))

    assert [word.text for word in dialect.take().words] == ["one", " two", "three"]


def test_vllm_gets_integers_in_whole_steps():
    """Louder samples are clipped, and silence completes the last step."""
    audio = np.array([0.5, -0.5, 2.0, -2.0], np.float32)

    _, append, _ = map(json.loads, vllm().send(audio, is_last=True))

    sent = np.frombuffer(base64.b64decode(append["audio"]), "<i2")
    assert len(sent) == STEP
    assert sent[:5].tolist() == [16_384, -16_384, 32_767, -32_768, 0]


@pytest.mark.parametrize(
    ("deltas", "tokens"), [(14, 15), (13, 13), (14, None)], ids=["tokens", "steps", "no count"]
)
def test_counts_of_vllm_that_disagree_are_an_error(deltas, tokens):
    """Audio was dropped or deltas were merged, so words would have wrong times."""
    dialect = vllm()
    dialect.send(FOUR_STEPS, is_last=True)
    for _ in range(deltas):
        dialect.receive(delta())

    with pytest.raises(ServerMessageError, match="expected 14 deltas"):
        dialect.receive(done(tokens))
