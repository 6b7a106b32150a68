from __future__ import annotations

import tracemalloc

import pytest

from wlk_core.errors import BackendError
from wlk_core.processor import StreamStats
from wlk_core.tokens import Transcript
from wlk_live.session.events import (
    Commit,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    SpeechStarted,
)

from .conftest import MANUAL, SECOND

FAILED = "conversation.item.input_audio_transcription.failed"
DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"
DETECTION = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}


def language(name):
    """Return a session update with another language, which needs another stream."""
    return {"audio": {"input": {"transcription": {"language": name}}}}


def types(messages):
    """Return the types of messages without their long common prefix."""
    return [message["type"].removeprefix("conversation.item.") for message in messages]


def only_error(messages):
    """Return code and param of the only message, which is an error."""
    (message,) = messages
    assert message["type"] == "error"
    assert set(message["error"]) == {"message", "type", "code", "param", "event_id"}
    return message["error"]["code"], message["error"]["param"]


def end(audio_time=1.0):
    """Return the End of a stream."""
    return End(audio_time=audio_time, stats=StreamStats(), latency=None)


def test_a_session_begins_with_its_whole_configuration(protocol):
    """session.created has every field that a client can set."""
    (created,) = protocol.begin()

    session = created["session"]
    assert (created["type"], session["type"]) == ("session.created", "transcription")
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
    assert session["audio"]["input"]["transcription"]["model"] == "small"
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"


def test_speech_becomes_an_item_with_deltas_and_a_transcript(protocol, client, streams, token):
    """With server_vad, an item ends by itself, and its deltas join to its transcript."""
    client("input_audio_buffer.append", audio=SECOND)
    events = [
        SpeechStarted(0.25, 0.5),
        Commit((token(" zero", 0.25, 0.5),), 0.75),
        Commit((token(" one ", 0.5, 0.75),), 0.8),
        Endpoint(0.75, "silence", 1.0),
    ]

    messages = protocol.handle(streams[0], events)

    assert types(messages) == [
        "input_audio_buffer.speech_started",
        "input_audio_transcription.delta",
        "input_audio_transcription.delta",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "added",
        "done",
        "input_audio_transcription.completed",
    ]
    deltas = [message["delta"] for message in messages if message["type"] == DELTA]
    assert "".join(deltas) == "zero one"
    assert messages[-1]["transcript"] == "zero one"
    assert (messages[0]["audio_start_ms"], messages[3]["audio_end_ms"]) == (250, 1150)
    assert messages[-1]["usage"] == {"type": "duration", "seconds": 0.5}
    assert len({message["item_id"] for message in messages if "item_id" in message}) == 1


def test_words_carry_times_and_confidence(protocol, manual, streams, token):
    """Deltas and completed items have word records, a start and an end."""
    manual("input_audio_buffer.append", audio=SECOND)
    manual("input_audio_buffer.commit")
    events = [Commit((token(" zero", 0.25, 0.5),), 1.0), Endpoint(1.0, "commit", 1.0)]

    delta, completed = protocol.handle(streams[0], events)

    word = {"word": "zero", "start": 0.25, "end": 0.5, "confidence": 0.5}
    assert delta["words"] == [word]
    assert completed["words"] == [word]
    assert (completed["start"], completed["end"]) == (0.25, 0.5)
    assert "logprobs" not in completed


def test_log_probabilities_come_when_they_are_included(protocol, client, streams, token):
    """The field is null if the backend reports no probabilities."""
    include = ["item.input_audio_transcription.logprobs"]
    client("session.update", session={**MANUAL, "include": include})
    client("input_audio_buffer.append", audio=SECOND)
    events = [Commit((token(" zero"),), 1.0), Commit((token(" one", probability=None),), 1.0)]

    first, second = protocol.handle(streams[0], events)

    assert [entry["token"] for entry in first["logprobs"]] == [" zero"]
    assert second["logprobs"] is None


def test_a_hypothesis_comes_only_when_it_is_included(protocol, client, streams, token):
    """`wlk.hypothesis` is sent only on request, and never as a delta, which is final."""
    change = HypothesisChange(Transcript((token(" zero"),)), 1.0)
    client("input_audio_buffer.append", audio=SECOND)
    assert protocol.handle(streams[0], [change]) == []
    client("session.update", session={"include": ["wlk.hypothesis"]})

    (message,) = protocol.handle(streams[0], [change])

    assert (message["type"], message["text"]) == ("wlk.hypothesis", " zero")


def test_an_engine_that_fails_ends_the_session_with_failed_items(protocol, manual, streams):
    """Every item that will not be completed is reported as failed."""
    manual("input_audio_buffer.append", audio=SECOND)
    committed, *_ = manual("input_audio_buffer.commit")
    failure = Failure(BackendError("the engine broke"), is_final=True, audio_time=1.0)

    (failed,) = protocol.handle(streams[0], [failure])

    assert committed["item_id"] == failed["item_id"]
    assert "the engine broke" not in str(failed)  # the error may name files of the machine
    assert failed["error"]["code"] == "engine_failed"
    assert protocol.audio.has_failed
    assert only_error(manual("input_audio_buffer.commit")) == ("session_expired", None)


@pytest.mark.parametrize("appends", [1, 2], ids=["before any word", "after an item"])
def test_an_engine_that_fails_without_an_item_fails_the_next_one(
    protocol, manual, streams, appends
):
    """So the client gets the reason before the session closes."""
    for number in range(appends):
        if number:
            manual("input_audio_buffer.commit")
            protocol.handle(streams[0], [Endpoint(1.0, "commit", 1.0)])
        manual("input_audio_buffer.append", audio=SECOND)
    failure = Failure(BackendError("the engine broke"), is_final=True, audio_time=1.0)

    (failed,) = protocol.handle(streams[0], [failure, end()])

    assert types([failed]) == ["input_audio_transcription.failed"]
    assert (failed["item_id"], failed["error"]["code"]) == (f"item_0_{appends}", "engine_failed")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("{", ("invalid_json", None)),
        ("[" * 100_000, ("invalid_event", None)),
        ("[]", ("invalid_event", None)),
        (b"\x00", ("invalid_event", None)),
        ("{}", ("invalid_event", "type")),
        ('{"type": "no.such.type"}', ("invalid_event", "type")),
        ('{"type": "wlk.mark", "id": "a"}', ("invalid_event", "type")),  # marks are not included
        ('{"type": "input_audio_buffer.append"}', ("invalid_value", "audio")),
        ('{"type": "input_audio_buffer.append", "audio": "*"}', ("invalid_value", "audio")),
        ('{"type": "input_audio_buffer.append", "audio": "AA=="}', ("invalid_value", "audio")),
        ('{"type": "input_audio_buffer.commit"}', ("input_audio_buffer_commit_empty", None)),
        ('{"type": "session.update"}', ("invalid_value", "session")),
        ('{"type": "session.update", "session": {"type": "realtime"}}',
         ("invalid_value", "session.type")),
    ],
)  # fmt: skip
def test_a_wrong_message_is_an_error_event(protocol, message, expected):
    """The session stays open, and OpenAI's error fields describe the problem."""
    assert only_error(protocol.receive(message)) == expected
    assert not protocol.audio.is_over


def test_an_error_names_the_event_that_caused_it(client):
    """The error repeats the client's event_id."""
    (message,) = client("input_audio_buffer.commit", event_id="mine")

    assert message["error"]["event_id"] == "mine"


def test_the_format_cannot_change_after_the_first_audio(client):
    """The other fields of such an update are not applied either."""
    client("input_audio_buffer.append", audio=SECOND)
    session = {"audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}}}

    code, param = only_error(client("session.update", session=session))
    (updated,) = client("session.update", session={})

    assert (code, param) == ("invalid_value", "session.audio.input.format")
    assert updated["session"]["audio"]["input"]["turn_detection"] is not None


def test_binary_audio_is_an_append(protocol, client, streams):
    """A binary message holds samples in the session's format; it gets no answer."""
    client("session.update", session={"audio": {"input": {"format": {"type": "audio/pcmu"}}}})

    assert protocol.receive(bytes(80)) == []
    assert (
        streams[0].calls[0],
        protocol.audio.samples,
        protocol.audio.options.rate,
    ) == (("receive", 80), 80, 8000)


def test_messages_after_the_server_ended_the_session_are_ignored(protocol, client):
    """An error before the last words would make some clients stop."""
    client("session.update", session={})
    protocol.end()

    assert protocol.receive(bytes(2)) + protocol.receive('{"type": "session.update"}') == []


def test_a_second_end_is_no_error_and_audio_after_it_is_one(protocol, manual):
    """After a resume, a client may send its last message again."""
    manual("input_audio_buffer.append", audio=SECOND)
    manual("wlk.end")

    assert manual("wlk.end") == []
    for late in (manual("input_audio_buffer.append", audio=SECOND), protocol.receive(bytes(2))):
        assert only_error(late) == ("session_expired", None)


@pytest.mark.parametrize(("first", "text"), [(" un", "zero un"), ("un", "zero un"), (".", "zero.")])
def test_an_item_goes_on_after_a_change(*, manual, protocol, streams, token, first, text):
    """A commit covers all audio since the last one, here two streams, whose words stay separate."""
    manual("append", audio=SECOND)
    manual("session.update", session=language("fr"))
    manual("append", audio=SECOND)
    messages = manual("commit")
    messages += protocol.handle(streams[0], [Commit((token(" zero"),), 1.0), end()])
    events = [Commit((token(first),), 1.0), Endpoint(1.0, "commit", 1.0)]
    messages += protocol.handle(streams[1], events)

    assert [each["transcript"] for each in messages if each["type"] == COMPLETED] == [text]


@pytest.mark.parametrize("session", [MANUAL, DETECTION], ids=["manual", "detection"])
def test_a_stream_that_fails_after_a_commit_completes_nothing(client, protocol, streams, session):
    """The item is reported once, as failed."""
    client("session.update", session=session)
    client("append", audio=SECOND)
    client("session.update", session=language("fr"))
    client("commit")
    failure = Failure(BackendError("the engine broke"), is_final=True, audio_time=1.0)

    (message,) = protocol.handle(streams[0], [failure, end()])

    assert (message["type"], message["item_id"]) == (FAILED, "item_0_1")


def test_the_audio_of_a_fifth_stream_waits_for_the_end_of_an_earlier_one(manual, protocol, streams):
    """Nothing is refused: clients end their calls on an error."""
    for name in ("en", "fr", "en", "fr"):
        manual("session.update", session=language(name))
        manual("append", audio=SECOND)
    opened = []

    def make_room():
        opened.append(len(streams))
        protocol.handle(streams[0], [end()])

    protocol.make_room = make_room

    (updated,) = manual("session.update", session=language("en"))
    assert manual("append", audio=SECOND) == []

    assert updated["session"]["audio"]["input"]["transcription"]["language"] == "en"
    assert opened == [4]
    assert [stream.calls[0] for stream in streams] == [("receive", 24_000)] * 5


@pytest.mark.parametrize("kind", ["audio/pcm", "audio/wlk-f32le"])
def test_an_append_of_half_a_sample_is_refused_and_changes_nothing(client, protocol, streams, kind):
    """The size is that of the session's format, and the next append is taken as usual."""
    client("session.update", session={"audio": {"input": {"format": {"type": kind}}}})
    (refused,) = protocol.receive(bytes(5))

    assert only_error([refused]) == ("invalid_value", "audio")
    assert protocol.receive(bytes(8)) == []
    assert streams[0].calls == [("receive", 8 // (2 if kind == "audio/pcm" else 4))]


@pytest.mark.parametrize(
    "text",
    [
        '{"audio": "AAA=", "type": "input_audio_buffer.append", "event_id": 7}',
        '{"type": "x", "audio": "", "audio": "AAA=", "type": "input_audio_buffer.append"}',
        '{"type": "input_audio_buffer.append", "audio": "AAA=", "more": {"a": [1]}}',
    ],
    ids=["another order", "fields twice", "unknown fields"],
)
def test_an_append_of_any_shape_is_taken(protocol, streams, text):
    """Unknown fields are skipped, and of a field that comes twice the last one counts."""
    assert protocol.receive(text) == []
    assert streams[0].calls == [("receive", 1)]


@pytest.mark.parametrize("field", ["session", "event_id", "id", "more", "audio"])
@pytest.mark.parametrize("kind", ["session.update", "input_audio_buffer.append"])
def test_a_large_message_of_small_objects_takes_no_more_memory_than_its_text(
    client, protocol, kind, field
):
    """Decoded, it would take 25 times as much."""
    value = "[" + ",".join(['{"a":[]}'] * 200_000) + "]"  # 2 MB
    audio = "" if field == "audio" else '"audio": "AAA=", '
    text = f'{{"type": "{kind}", {audio}"{field}": {value}}}'
    tracemalloc.start()

    protocol.receive(text)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(text)
