"""Audio with several channels is transcribed a channel at a time, or mixed."""

from __future__ import annotations

from datetime import UTC, datetime
import json
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from wlk_conformance.protocols import RULES, PlayedSession, SilentStream, speech

from .client import LISTEN, client, final_text

CLOSE, FINALIZE = '{"type": "CloseStream"}', '{"type": "Finalize"}'
LEFT, RIGHT = [1, 2, None, 3, *[None] * 10, 4], [None, None, 5, *[None] * 9, 6, 7, None]
TWO = "channels=2&multichannel=true"


def interleaved(*channels):
    """Return 16-bit audio with the samples of each channel in turn."""
    return np.stack([np.frombuffer(each, "<i2") for each in channels], 1).tobytes()


def results(messages):
    """Return the final results."""
    return [message for message in messages if message.get("is_final")]


def words(messages, channel):
    """Return the words of a channel with their times."""
    return [
        (word["word"], word["start"], word["end"])
        for message in results(messages)
        if message["channel_index"][0] == channel
        for word in message["channel"]["alternatives"][0]["words"]
    ]


def played(audio, query, size):
    """Return the messages of a session that sends *audio* in parts of *size* bytes."""
    session = PlayedSession(client(LISTEN, query, final_text))
    session.send(*(audio[start : start + size] for start in range(0, len(audio), size)), CLOSE)
    return session.messages


def mixed(part):
    """Return the messages of stereo audio whose channels are both *part*."""
    return [interleaved(part, part)]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept_by_a_mix(rule):
    """The mean of two equal channels is one of them: PRO rules, docs/protocols.md."""
    stereo = attrs.evolve(client(LISTEN, "channels=2", final_text), audio=mixed, part_bytes=2)

    assert RULES[rule][1](stereo) is None


@pytest.mark.parametrize("size", [1, 1003, 10**6], ids=["byte by byte", "cut", "at once"])
def test_the_words_of_each_channel_equal_a_run_of_its_own(size):
    """Their times too, however samples and frames are cut, and while the other is silent."""
    parts = speech(LEFT, 8000), speech(RIGHT, 8000)
    rate = "sample_rate=8000"
    both = played(interleaved(*parts), f"{TWO}&{rate}", size)

    for channel, part in enumerate(parts):
        assert words(both, channel) == words(played(part, rate, 10**6), 0) != []


def test_each_result_names_its_channel_and_metadata_comes_once():
    """It is the last message, and counts the channels."""
    messages = played(interleaved(speech(LEFT), speech(RIGHT)), f"{TWO}&vad_events=true", 9000)

    assert {tuple(message["channel_index"]) for message in results(messages)} == {(0, 2), (1, 2)}
    assert {
        message["channel"][0] for message in messages if message["type"] == "SpeechStarted"
    } == {
        0,
        1,
    }
    assert [message["type"] for message in messages].count("Metadata") == 1
    assert messages[-1]["channels"] == 2
    assert messages[-1]["duration"] == pytest.approx(len(LEFT) / 10)


def test_metadata_comes_even_if_that_of_all_channels_is_the_same(monkeypatch):
    """Channels that end together without audio differ in the time of creation alone, if at all."""
    created = SimpleNamespace(now=lambda _zone: datetime(2026, 1, 1, tzinfo=UTC))
    monkeypatch.setattr("wlk_protocols.deepgram.messages.datetime", created)
    session = PlayedSession(client(LISTEN, TWO, final_text))

    assert [message["type"] for message in session.send(CLOSE)] == ["Metadata"]


@pytest.mark.parametrize("query", [TWO, "channels=2"], ids=["each", "mixed"])
def test_a_recording_is_not_divided_as_samples(query):
    """Its bytes would be noise; the error ends the audio, and says what came."""
    session = PlayedSession(client(LISTEN, query, final_text), SilentStream)
    error, *rest = session.send(b"fLaC" + bytes(4000))

    assert "got a recording in FLAC" in error["description"]
    assert [message["type"] for message in rest] == ["Metadata"]


@pytest.mark.parametrize("encoding", ["linear16", "linear32", "mulaw"])
def test_samples_are_divided_as_they_come(encoding):
    """Each channel decodes its own, long G.711 a part at a time."""
    session = PlayedSession(client(LISTEN, f"{TWO}&encoding={encoding}", final_text), SilentStream)
    session.send(bytes(2 * 16_000))

    named = {"linear16": ("s16le", 8000), "linear32": ("f32le", 4000), "mulaw": ("mulaw", 16_000)}
    assert [(stream.options.encoding, *stream.calls[0]) for stream in session.streams] == [
        (named[encoding][0], "receive", named[encoding][1])
    ] * 2


def test_a_finalize_is_answered_for_each_channel_and_configure_once():
    """Even for a channel with no words."""
    session = PlayedSession(client(LISTEN, TWO, final_text))
    session.send(interleaved(speech([1, 2]), speech([None, None])))
    answers = session.send(FINALIZE)
    failures = session.send('{"type": "Configure"}')

    found = {answer["channel_index"][0]: answer for answer in results(answers)}
    assert all(answer["from_finalize"] for answer in found.values())
    assert found.keys() == {0, 1}
    assert [failure["type"] for failure in failures] == ["ConfigureFailure"]


def test_audio_that_is_refused_ends_all_channels():
    """Otherwise one of them would get audio that another did not."""
    query = "channels=2&multichannel=true&encoding=linear32"
    session = PlayedSession(client(LISTEN, query, final_text), SilentStream)
    session.send(np.array([0.1, np.nan], "<f4").tobytes())

    assert [message["type"] for message in session.messages] == ["Error", "Metadata"]
    assert all(audio.is_over for audio in session.channels)


def test_one_shutdown_ends_all_channels_with_their_words():
    """Words of both channels that were still undecided are sent."""
    session = PlayedSession(client(LISTEN, TWO, final_text))
    session.send(interleaved(speech([1]), speech([2])))
    session.shut_down()

    assert all(audio.is_over for audio in session.channels)
    assert sorted(final_text(session.messages).split()) == ["w1", "w2"]
    assert json.dumps(session.messages).count("Metadata") == 1
