"""The protocol answers the events of Wyoming's clients."""

from __future__ import annotations

import asyncio
import json

import attrs
from hypothesis import given, strategies
import numpy as np
import pytest

from wlk_conformance.protocols import CARD, RULES, Client, PlayedSession, SilentStream
from wlk_core.processor import StreamStats
from wlk_core.tokens import ASRToken
from wlk_live.session import Commit, End, Endpoint, SpeechStarted
from wlk_protocols.wyoming.pcm import AudioConverter, AudioFormat
from wlk_protocols.wyoming.routes import read_event, routes

FORM = {"rate": 16_000, "width": 2, "channels": 1}


def event(kind, data, payload=b""):
    """Return the bytes of an event."""
    header = {"type": kind, "data": data, "payload_length": len(payload)}
    return json.dumps(header).encode() + b"\n" + payload


def text(messages):
    """Return the joined transcripts."""
    found = [message for message in messages if message["type"] == "transcript"]
    return " ".join(message["data"]["text"] for message in found)


CLIENT = Client(
    route=routes()[0],
    begin=[event("audio-start", FORM)],
    audio=lambda part: [event("audio-chunk", FORM, part)],
    end=[event("audio-stop", {})],
    text=text,
    has_pauses=False,
)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept(rule):
    """PRO rules: docs/protocols.md."""
    assert RULES[rule][1](CLIENT) is None


SECOND = bytes(32_000)
START, STOP = ("audio-start", FORM), ("audio-stop", {})
SETTINGS = ("transcribe", {"language": "de"})
CHUNK = ("audio-chunk", FORM, SECOND)
END = End(audio_time=3.0, stats=StreamStats(), latency=None)


class Session(PlayedSession):
    """A session on a stream without events; messages can be bytes or arguments of `event`."""

    def __init__(self):
        super().__init__(CLIENT, SilentStream)

    def send(self, *events):
        """Return the answers to *events*."""
        return super().send(*(e if isinstance(e, bytes) else event(*e) for e in events))


@pytest.fixture
def client():
    """Return a client that has sent a second of a command."""
    client = Session()
    client.send(START, CHUNK)
    return client


def commit(text):
    """Return the event of a committed word."""
    return Commit((ASRToken(0.0, 0.5, f" {text}"),), 1.0)


def kinds(events):
    """Return the types of *events*."""
    return [event["type"] for event in events]


def transcripts(events):
    """Return the transcripts among *events*."""
    return [event["data"]["text"] for event in events if event["type"] == "transcript"]


STOPPED = Endpoint(1.0, "commit", 1.0)


def test_the_model_and_its_languages_are_described():
    """The client detects the end of speech, unless it asks the server to."""
    (info,) = Session().send(("describe", {}))

    (program,) = info["data"]["asr"]
    assert (
        program["supports_transcript_streaming"],
        program["requires_external_vad"],
    ) == (True, True)
    (model,) = program["models"]
    assert (model["name"], model["languages"], model["installed"]) == ("played", ["en", "de"], True)


def test_a_model_that_takes_the_language_from_the_audio_is_offered_for_every_one(monkeypatch):
    """Without names of languages, Home Assistant would offer it for none."""
    spec = attrs.evolve(CARD.spec, languages=(), capabilities=())
    monkeypatch.setattr("wlk_conformance.protocols.CARD", attrs.evolve(CARD, spec=spec))
    (info,) = Session().send(("describe", {}))
    session = Session()

    assert {"en", "de", "ja"} <= set(info["data"]["asr"][0]["models"][0]["languages"])
    assert session.send(("transcribe", {"language": "en"}), START, CHUNK) == []


@pytest.mark.parametrize("form", [FORM, FORM | {"rate": 44_100}, FORM | {"channels": 2}], ids=str)
def test_a_recording_is_not_converted_as_samples(form):
    """Its bytes would be noise."""
    (error,) = Session().send(START, ("audio-chunk", form, b"OggS" + bytes(4000)))

    assert "got a recording in Ogg" in error["data"]["text"]


def test_the_end_of_the_audio_gives_the_transcript(client):
    """The transcript is its joined chunks, and comes between start and stop."""
    messages = [*client.happen(commit("zero")), *client.send(STOP)]
    messages += client.happen(commit("one"), STOPPED)

    chunk, stop = "transcript-chunk", "transcript-stop"
    assert kinds(messages) == ["transcript-start", chunk, chunk, "transcript", stop]
    assert "".join(m["data"]["text"] for m in messages if m["type"] == chunk) == "zero one"
    assert transcripts(messages) == ["zero one"]


def test_a_pause_after_words_gives_the_transcript_to_a_client_that_wants_it_then():
    """It is sent once; the rest of that audio is dropped."""
    client = Session()
    client.send(("transcribe", {"vad_sensitivity": "default"}), START, CHUNK)
    before = client.happen(Endpoint(0.4, "silence", 0.9))
    messages = client.happen(SpeechStarted(0.5, 1.0), commit("zero"), Endpoint(1.0, "silence", 1.5))
    later = [*client.send(CHUNK, STOP), *client.happen(commit("noise"))]

    assert kinds(before) == ["voice-stopped"]
    assert transcripts(messages) == ["zero"]
    assert messages[0]["data"] == {"timestamp": 500}
    assert later == []
    assert client.audio.samples == 16_000


def test_an_uploaded_recording_has_the_words_after_its_pauses(client):
    """However fast it comes: a client that names no `vad_sensitivity` ends its audio itself."""
    early = client.happen(commit("zero"), Endpoint(1.0, "silence", 1.5))
    client.send(CHUNK, STOP)
    messages = client.happen(commit("one"), STOPPED)

    assert transcripts(early) == []
    assert transcripts(messages) == ["zero one"]


@pytest.mark.parametrize(
    ("sensitivity", "seconds"), [("relaxed", 1.25), ("default", 0.7), ("aggressive", 0.3)]
)
def test_a_sensitivity_is_a_length_of_silence(sensitivity, seconds):
    """A command without one has the server's default again."""
    client = Session()
    client.send(("transcribe", {"vad_sensitivity": sensitivity}), START, CHUNK, STOP)
    chosen = client.streams[0].options.gate
    client.send(("transcribe", {}), START, CHUNK, STOP)

    assert chosen.silence_seconds == seconds
    assert client.streams[1].options.gate is None


def test_commands_in_other_languages_keep_their_own_words_and_times_in_a_shutdown(client):
    """The end of the first stream does not end the second command."""
    client.send(STOP, SETTINGS, START, CHUNK)
    client.protocol.end()
    first = client.happen(commit("zero"), STOPPED, END)
    second = client.happen(SpeechStarted(0.25, 0.5), commit("eins"), END)

    languages = [m["data"]["language"] for m in (*first, *second) if m["type"] == "transcript"]
    assert (
        transcripts(first),
        transcripts(second),
        languages,
    ) == (["zero"], ["eins"], ["en", "de"])
    assert second[0]["data"] == {"timestamp": 250}


def test_audio_after_a_shutdown_opens_no_stream(client):
    """The client does not know of the shutdown yet, and nothing would end another stream."""
    client.protocol.end()
    client.send(CHUNK)
    client.happen(commit("zero"), END)

    assert len(client.streams) == 1
    assert client.audio.is_over


def test_a_language_that_was_detected_is_that_of_the_transcript():
    """This applies if neither the model nor the client names a language."""
    client = Session()
    client.audio.options = attrs.evolve(client.audio.options, language=None)
    client.send(START, CHUNK, STOP)
    token = ASRToken(0.0, 0.5, " null", detected_language="de")
    messages = client.happen(commit("a"), Commit((token,), 1.0), STOPPED)

    (transcript,) = (m["data"] for m in messages if m["type"] == "transcript")
    assert transcript == {"text": "a null", "language": "de"}


def test_no_audio_has_an_empty_transcript():
    """It is sent immediately."""
    client = Session()

    assert transcripts(client.send(START, STOP)) == [""]
    assert transcripts(client.send(STOP)) == [""]


def test_language_and_terms_are_those_of_the_command():
    """Names and terms become keyterms of the model."""
    client = Session()
    terms = {"transcript_names": ["Küche"], "transcript_terms": ["wlk"]}
    client.send(("transcribe", {"language": "de", **terms}), START, CHUNK)

    settings = client.audio.options
    assert (settings.language, settings.keyterms) == ("de", "Küche, wlk")


def test_settings_between_commands_cause_no_transcript(client):
    """The audio of the next command opens the stream that has them."""
    client.send(STOP, SETTINGS, START, CHUNK)
    messages = client.happen(commit("zero"), STOPPED, END)

    assert transcripts(messages) == ["zero"]


def test_settings_that_come_late_apply_to_all_of_the_command(client):
    """Its audio so far goes to a new stream; words of the first one are forgotten."""
    client.happen(commit("zero"))
    client.send(SETTINGS, CHUNK, STOP)
    messages = client.happen(commit("null"), commit("eins"), STOPPED)

    first, second = client.streams
    assert (first.options.language, second.options.language) == ("en", "de")
    received = [[call for call in each.calls if call[0] == "receive"] for each in (first, second)]
    assert received[1] == received[0] * 2
    assert transcripts(messages) == ["null eins"]
    assert [m["data"]["language"] for m in messages if m["type"] == "transcript"] == ["de"]


def test_settings_that_change_nothing_restart_nothing(client):
    """Some clients send the same settings after the start of the audio."""
    assert client.send(("transcribe", {"language": "en"})) == []
    assert len(client.streams) == 1


def test_settings_after_half_a_minute_of_audio_are_refused(client):
    """No more audio than that is kept."""
    client.send(*[CHUNK] * 31)
    (error,) = client.send(("transcribe", {"vad_sensitivity": "default"}))
    messages = client.happen(commit("zero"), Endpoint(1.0, "silence", 1.7))

    assert error["data"]["code"] == "wrong_order"
    assert len(client.streams) == 1
    assert transcripts(messages) == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "large"}, "model_not_found"),
        ({"vad_sensitivity": "lazy"}, "invalid_value"),
        ({"transcript_names": "Ben"}, "invalid_value"),
        ({"transcript_terms": [1]}, "invalid_value"),
    ],
)
def test_settings_that_cannot_be_honoured_are_named(fields, code):
    """The error says what was expected, and the settings stay as they were."""
    client = Session()
    before = client.audio.options
    (error,) = client.send(("transcribe", {"language": "de", **fields}))

    assert error["data"]["code"] == code
    assert client.audio.options == before


def test_only_as_many_terms_are_used_as_an_engine_can_use(caplog):
    """Names come first, and an error would cost a large household each of its commands."""
    client = Session()
    names = [f"lamp {number}" for number in range(20_000)]
    client.send(("transcribe", {"transcript_names": names, "transcript_terms": ["wlk"]}))

    assert client.audio.options.keyterms == ", ".join(names[:500])
    assert "the first 500 are used" in caplog.text


def test_text_that_is_not_unicode_is_refused():
    """A lone surrogate would fail in the engine, with each chunk."""
    (error,) = Session().send(
        b'{"type": "transcribe", "data": {"transcript_names": ["\\ud800"]}}\n'
    )

    assert error["data"]["code"] == "invalid_json"


def test_a_ping_is_answered():
    """The answer has its text."""
    assert Session().send(("ping", {"text": "a"})) == [{"type": "pong", "data": {"text": "a"}}]


@pytest.mark.parametrize(
    "wrong",
    [
        b"{\n",
        b"[]\n",
        b'{"type": 1}\n',
        b'{"type": "ping", "data": [1]}\n',
        b'{"type": "ping", "data_length": 2}\nab',
        ("synthesize", {}),
        ("transcribe", {"language": "xx"}),
        ("audio-start", {"rate": 16_000, "width": 5, "channels": 1}),
        ("audio-start", {"rate": 16_000, "width": 2, "channels": 0}),
        ("audio-start", {"rate": "16000", "width": 2, "channels": 1}),
        ("audio-start", {"rate": 1000, "width": 2, "channels": 1}),
        ("audio-chunk", {"rate": True, "width": 2, "channels": 1}, b"\0\0"),
        ("audio-chunk", {"width": 4}, b"\0\0"),
    ],
)
def test_a_wrong_event_is_an_error_and_the_connection_goes_on(wrong):
    """The error has a message and a code."""
    client = Session()
    (error,) = client.send(wrong)

    assert set(error["data"]) == {"text", "code"}
    assert transcripts(client.send(START, STOP)) == [""]


def test_audio_without_a_start_begins_a_command():
    """The reference server asks for no `audio-start`; a second one changes nothing."""
    client = Session()
    client.send(CHUNK, START, CHUNK, STOP)
    messages = client.happen(commit("zero"), STOPPED)

    assert transcripts(messages) == ["zero"]
    assert client.audio.samples == 32_000


def test_commands_of_one_connection_can_have_any_rate(client):
    """The clock of the session has a single one; all audio of a command is resampled."""
    client.send(STOP, ("audio-start", {**FORM, "rate": 8000}))
    client.send(("audio-chunk", {**FORM, "rate": 8000}, bytes(8000)))
    client.send(("audio-chunk", {**FORM, "rate": 8000}, bytes(8000)), STOP)

    assert client.audio.samples == 32_000


def test_a_program_can_be_selected():
    """There is only one."""
    assert Session().send(("select-program", {"name": "wlk-serve"})) == []


SAMPLES = np.array([0, 1000, -1000, 32_000, -32_768], "<i2")


@pytest.mark.parametrize(
    ("form", "data", "tolerance"),
    [
        ({"width": 1}, (SAMPLES // 256 + 128).astype(np.uint8), 256),
        ({"width": 2}, SAMPLES, 0),
        ({"width": 3}, (SAMPLES.astype("<i4") << 16).view(np.uint8).reshape(-1, 4)[:, 1:], 0),
        ({"width": 4}, SAMPLES.astype("<i4") << 16, 0),
        ({"channels": 2}, np.repeat(SAMPLES, 2), 0),
        ({"width": 4, "channels": 3}, np.repeat(SAMPLES.astype("<i4") << 16, 3), 1),
    ],
    ids=["8 bits", "16 bits", "24 bits", "32 bits", "stereo", "three channels of 32 bits"],
)
def test_samples_of_any_width_and_number_of_channels_are_converted(form, data, tolerance):
    """Several channels become their mean."""
    converter = AudioConverter(AudioFormat().updated(form))
    found = np.frombuffer(converter.push(data.tobytes()), "<i2")

    assert np.abs(found.astype(int) - SAMPLES).max() <= tolerance


def read(data):
    """Return the events in *data*, or the error."""

    async def run():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        events = []
        while (event := await read_event(reader)) is not None:
            events.append(event)
        return events

    return asyncio.run(run())


def test_events_are_read_with_their_data_and_payload():
    """Events that arrive together are separated, including their payloads."""
    events = [event(*CHUNK), event(*STOP)]

    assert read(b"".join(events)) == events


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"no json\n", ValueError),
        (b"[]\n", ValueError),
        (b'{"payload_length": -1}\n', ValueError),
        (b'{"payload_length": 2000000}\n', ValueError),
        (b'{"payload_length": "1"}\n', ValueError),
        (b'{"payload_length": 1.5}\n', ValueError),
        (b'{"payload_length": NaN}\n', ValueError),
        (b'{"payload_length": 9}\nabc', EOFError),
        (b"{" * 70_000, ValueError),
    ],
)
def test_what_is_no_event_ends_the_connection(data, error):
    """The reader neither waits for missing bytes nor reads beyond the limit of an event."""
    with pytest.raises(error):
        read(data)


ACTIONS = strategies.sampled_from([START, CHUNK, STOP, SETTINGS, "word", "silence", "stopped"])


@given(strategies.lists(ACTIONS))
def test_any_order_gives_each_word_to_one_transcript_at_most(actions):
    """Words stay in order, and the joined chunks of a transcript are its text."""
    client, words, messages = Session(), 0, []
    for action in actions:
        if not isinstance(action, str):
            messages += client.send(action)
        elif client.audio.segments and action == "word":
            messages += client.happen(commit(str(words)))
            words += 1
        elif client.audio.segments and action == "silence":
            messages += client.happen(Endpoint(1.0, "silence", 1.0))
        elif client.audio.segments and client.audio.segment.commits:
            messages += client.happen(STOPPED)

    found = [int(word) for text in transcripts(messages) for word in text.split()]
    assert sorted(set(found)) == found
    assert set(found) <= set(range(words))
    text = ""
    for message in messages:
        text += message["data"]["text"] if message["type"] == "transcript-chunk" else ""
        if message["type"] == "transcript":
            assert message["data"]["text"] == text.strip()
            text = ""
        if message["type"] == "transcript-start":
            text = ""
