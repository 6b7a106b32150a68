"""The messages that a session keeps for a client that loses its socket."""

from __future__ import annotations

import json

from hypothesis import given, strategies
import numpy as np
import pytest

from wlk_conformance.protocols import SilentStream
from wlk_serve.errors import RequestError
from wlk_serve.protocols import SessionAudio, StreamOptions
from wlk_serve.sessions.messages import ResumeLog


def decoded(messages):
    """Return the decoded JSON of encoded messages."""
    return [json.loads(text) for _, text in messages]


DELTA = {"type": "delta", "text": "zero"}
REPLACEABLE = {"wlk.ack", "wlk.hypothesis"}
KINDS = strategies.sampled_from(["delta", "completed", "wlk.hypothesis"])


@pytest.fixture
def log():
    """Return a session's log for resuming."""
    return ResumeLog("token", REPLACEABLE)


def test_audio_is_acknowledged_once_a_second(log):
    """Samples of all messages count together."""
    acks = [log.acknowledge(samples, 8000) for samples in range(1000, 17_000, 1000)]

    found = [(ack["samples"], ack["messages"]) for batch in acks for ack in batch]
    assert found == [(8000, 8), (16_000, 16)]


@pytest.mark.parametrize("last", [3, -1, 10**17])
def test_a_number_that_was_never_sent_is_expired(log, last):
    """So the client of another session gets no messages."""
    log.number([DELTA])

    with pytest.raises(RequestError) as caught:
        log.resume(last, 0)

    assert (caught.value.status, caught.value.code) == (404, "resume_expired")


def test_the_log_is_bounded_and_a_client_that_misses_more_is_refused(log, monkeypatch):
    """Only the newest messages are kept."""
    monkeypatch.setattr("wlk_serve.sessions.messages._MAX_KEPT_CHARACTERS", 500)
    log.number([DELTA] * 100)

    with pytest.raises(RequestError):
        log.resume(1, 0)
    assert log.characters <= 500
    assert [message["wlk_seq"] for message in decoded(log.resume(99, 0))[1:]] == [100]


@given(
    strategies.lists(
        strategies.tuples(
            strategies.lists(KINDS, max_size=4),  # what the server sends
            strategies.booleans(),  # whether the socket is lost after that
            strategies.integers(0, 9),  # how many of the newest messages are lost with it
            strategies.integers(0, 50),  # samples that the client sends
            strategies.integers(0, 50),  # of them, samples that are lost
        ),
        max_size=30,
    )
)
def test_any_cut_anywhere_gives_every_message_and_every_sample_once(script):
    """The client gets the same messages as without losses, except for replaced ones."""
    log = ResumeLog("token", REPLACEABLE)
    sent, received, wire = [], [], []
    audio, arrived = [], []
    for kinds, is_cut, lost_messages, samples, lost_samples in script:
        new = [{"type": kind, "n": len(sent) + i} for i, kind in enumerate(kinds)]
        numbered = decoded(log.number(new))
        sent += numbered
        wire += numbered
        new = list(range(len(audio), len(audio) + samples))
        audio += new
        arrived += new[: max(0, samples - lost_samples)] if is_cut else new
        wire += decoded(log.number(log.acknowledge(len(arrived), 20)))
        if not is_cut:
            received += wire
            wire = []
            continue
        received += wire[: max(0, len(wire) - lost_messages)]
        last = received[-1]["wlk_seq"] if received else 0
        resumed, *wire = decoded(log.resume(last, len(arrived)))
        assert resumed["wlk_seq"] == last
        arrived += audio[resumed["samples"] :]
        log.number(log.acknowledge(len(arrived), 20))
    received += wire

    def lasting(messages):
        return [message for message in messages if message["type"] not in REPLACEABLE]

    numbers = [message["wlk_seq"] for message in received]
    assert lasting(received) == lasting(sent)
    assert sorted(set(numbers)) == numbers
    assert arrived == audio


def test_audio_that_comes_again_begins_with_a_whole_sample():
    """An incomplete sample from before the loss would shift all later audio by a byte."""
    audio, stream, received = SessionAudio(StreamOptions()), SilentStream(StreamOptions()), []
    stream.receive = lambda samples: received.extend(np.rint(samples * 32_768).astype("<i2"))
    audio.append(b"\0\1\2\3\4")
    audio.open(stream)
    audio.proceed()
    audio.rewind()
    audio.append(b"\4\5\6\7")

    assert (audio.samples, received) == (4, [0x0100, 0x0302, 0x0504, 0x0706])
