"""Audio that clients cut anywhere: every sample arrives once, in order, and nothing shifts."""

from __future__ import annotations

import asyncio
import base64
import json

import numpy as np
import pytest

from wlk_serve.protocols import SessionAudio, StreamOptions
from wlk_serve.sessions.sockets import serve_session

SAMPLES = np.arange(-300, 300, dtype="<i2") * 97
CODES = np.arange(256, dtype=np.uint8)


class KeepingStream:
    """A fake stream that keeps its samples, as 16-bit integers."""

    backlog_seconds = 0.0

    def __init__(self):
        self.samples = []

    def receive(self, audio):
        """Keep audio."""
        self.samples += np.rint(audio * 32_768).astype(int).tolist()

    def commit(self):
        """Do nothing."""

    end_audio = close = commit


@pytest.fixture
def opened():
    """Return a function that returns a session's audio and its stream, which is open."""

    def opened(**options):
        audio, stream = SessionAudio(StreamOptions(**options)), KeepingStream()
        audio.open(stream)
        return audio, stream

    return opened


@pytest.mark.parametrize("size", [1, 3, 7, 601])
def test_samples_arrive_whole_however_they_are_cut(opened, size):
    """Pieces of one byte, or of any odd number of bytes, give the samples of one piece."""
    audio, stream = opened()
    data = SAMPLES.tobytes()
    for start in range(0, len(data), size):
        audio.append(data[start : start + size])

    assert stream.samples == SAMPLES.tolist()
    assert audio.samples == len(SAMPLES)


def test_floats_arrive_whole_in_pieces_of_one_byte(opened):
    """A sample of four bytes waits until its last byte has come."""
    audio, stream = opened(encoding="f32le")
    for byte in (SAMPLES / np.float32(32_768)).astype("<f4").tobytes():
        audio.append(bytes([byte]))

    assert stream.samples == SAMPLES.tolist()


def test_half_a_sample_before_another_format_does_not_shift_it(opened):
    """It can never be completed, so the first byte in the new format begins a sample."""
    audio, before = opened()
    audio.append(b"\1")
    audio.change(StreamOptions(encoding="mulaw", rate=8_000))
    audio.append(CODES.tobytes())
    audio.open(after := KeepingStream())
    audio.proceed()
    whole, expected = opened(encoding="mulaw", rate=8_000)
    whole.append(CODES.tobytes())

    assert before.samples == []
    assert after.samples == expected.samples
    assert len(after.samples) == 256


def test_half_a_sample_before_other_options_in_the_same_format_is_completed(opened):
    """A change of the language, say, does not interrupt the client's bytes."""
    audio, before = opened()
    data = SAMPLES.tobytes()
    audio.append(data[:5])
    audio.change(StreamOptions(language="fr"))
    audio.append(data[5:])
    audio.open(after := KeepingStream())
    audio.proceed()

    assert before.samples + after.samples == SAMPLES.tolist()


def test_a_clear_in_half_a_sample_does_not_shift_the_audio_after_it(opened):
    """The bytes that follow complete the sample, because the client goes on where it was."""
    audio, _ = opened()
    data = SAMPLES.tobytes()
    audio.append(data[:5])
    audio.clear()
    audio.append(data[5:])
    audio.open(after := KeepingStream())
    audio.proceed()

    assert after.samples == SAMPLES[2:].tolist()


def test_audio_after_the_end_does_not_count(opened):
    """Nor does audio after a failure; the protocol learns it from the answer."""
    audio, stream = opened()
    counts = [audio.append(bytes(2))]
    audio.end()
    counts.append(audio.append(bytes(2)))
    failed, _ = opened()
    failed.has_failed = True
    counts.append(failed.append(bytes(2)))

    assert counts == [True, False, False]
    assert stream.samples == [0]


class TinyClient:
    """A socket whose client appends one sample per message and takes messages slowly, if at all."""

    def __init__(self, count):
        self._samples = iter(range(count))
        self.reads = asyncio.Event()

    async def receive(self):
        """Return the next append, and at the end the client's close."""
        number = next(self._samples, None)
        if number is None:
            return {"type": "websocket.disconnect", "code": 1000}
        audio = base64.b64encode(np.array([number], "<i2").tobytes()).decode()
        message = {"type": "input_audio_buffer.append", "audio": audio}
        return {"type": "websocket.receive", "text": json.dumps(message)}

    async def send_text(self, _text):
        """Wait until the client reads."""
        await self.reads.wait()

    async def close(self, _code):
        """Do nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False], ids=["a client that reads", "one that does not"])
def test_ten_thousand_tiny_appends_arrive_in_order(open_session, reads):
    """Each is a sample; none is lost, doubled or held back by a client that does not read."""
    stream = KeepingStream()

    async def opened(_options, _on_events, *, after_step):
        del after_step
        return stream

    async def run():
        client = TinyClient(10_000)
        if reads:
            client.reads.set()
        session = open_session(open_stream=opened)
        await serve_session(client, session, session.begin())
        return session.audio.samples

    assert asyncio.run(run()) == 10_000
    assert stream.samples == list(range(10_000))
