"""Silero, alone and in the gate."""

from __future__ import annotations

import json

import av
import numpy as np
import pytest

from wlk_conformance.testing import load_clip
from wlk_conformance.testing.digits import clip_path
from wlk_live.audio import PcmReader, Resampler, decode_file
from wlk_live.vad import SilenceEnded, SilenceGate, SileroDetector

RANDOM = np.random.default_rng(17)
TIME = np.arange(16_000 * 30) / 16_000
NO_SPEECH = {
    "zeros": np.zeros_like(TIME),
    "low noise": RANDOM.standard_normal(len(TIME)) * 0.001,
    "loud noise": RANDOM.standard_normal(len(TIME)) * 0.3,
    "mains hum": np.sin(2 * np.pi * 50 * TIME) * 0.05,
}


def silences(audio):
    """Return the silences that a gate with Silero removes from *audio*."""
    gate = SilenceGate(SileroDetector())
    events = gate.push(audio.astype(np.float32)) + gate.flush()
    return [event for event in events if isinstance(event, SilenceEnded)]


@pytest.mark.slow  # half a minute of sound
@pytest.mark.parametrize("name", NO_SPEECH)
def test_audio_without_speech_is_removed_whole(name):
    """Neither zeros nor noise are passed on, even after the model was reset."""
    assert silences(NO_SPEECH[name]) == [SilenceEnded(0, len(TIME))]


def cut_words(clip, audio, start=0.0):
    """Return the words that a gate cuts from *clip*, which begins at *start* in *audio*."""
    words = json.loads(clip_path(clip).with_suffix(".json").read_text())["words"]
    removed = silences(audio)
    assert removed
    return [
        word["text"]
        for word in words
        for silence in removed
        if (start + word["start"]) * 16_000 < silence.end_sample
        and (start + word["end"]) * 16_000 > silence.start_sample
    ]


@pytest.mark.slow  # twenty seconds of speech
@pytest.mark.parametrize("level", [1.0, 0.02], ids=["near", "far"])
@pytest.mark.parametrize("clip", ["demo", "pauses"])
def test_no_word_is_removed(clip, level):
    """Speech is passed on whole, even if it is faint, and pauses are not."""
    audio = np.concatenate(list(decode_file(clip_path(clip)))) * level

    assert cut_words(clip, audio) == []


@pytest.mark.slow  # a minute of noise
def test_quiet_speech_after_a_minute_of_noise_is_not_removed():
    """The state of the model after a minute of noise would hide it, so the state is reset."""
    speech = np.concatenate(list(decode_file(clip_path("demo")))) * 0.03
    audio = np.random.default_rng(18).standard_normal(16_000 * 60 + len(speech)) * 0.001
    audio[-len(speech) :] += speech

    assert cut_words("demo", audio, start=60.0) == []


def alaw(samples):
    """Return *samples* at 8 kHz as A-law, whose smallest values are 8 and -8 of 32,768."""
    codec = av.CodecContext.create("pcm_alaw", "w")
    codec.sample_rate, codec.layout, codec.format = 8_000, "mono", "s16"
    frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
    frame.sample_rate = 8_000
    return b"".join(bytes(packet) for packet in codec.encode(frame))


@pytest.mark.slow  # three seconds of speech
@pytest.mark.parametrize("silence", [0xD5, 0x55], ids=["above 0", "below 0"])
def test_the_first_word_of_a_call_in_alaw_is_detected(silence):
    """A-law encodes silence as a nonzero constant, which must not count as sound."""
    clip = load_clip("demo").audio[: 16_000 * 3]
    samples = (clip.reshape(-1, 2).mean(axis=1) * 32_767).astype("<i2")
    call = alaw(samples).replace(b"\xd5", bytes([silence]))
    resampler = Resampler(8_000)
    samples = PcmReader("alaw").read(call)
    audio = np.concatenate([resampler.push(samples), resampler.flush()])

    assert call.startswith(bytes([silence]) * 400)
    assert silences(audio) == []


def test_a_constant_frame_is_silence_whatever_its_value():
    """Constant frames, and jumps between them, have the probabilities of zeros."""
    alone, moved = SileroDetector(), SileroDetector()
    zeros, step = np.zeros(512, np.float32), np.full(512, 8 / 32_768, np.float32)

    assert [moved(frame) for frame in [step, -step, zeros] * 4] == [alone(zeros) for _ in range(12)]


@pytest.mark.slow  # ten seconds of speech
def test_faint_speech_on_a_constant_offset_is_detected():
    """The offset of a sound card does not count as loudness."""
    speech = np.concatenate(list(decode_file(clip_path("demo"))))[: 16_000 * 10] * 0.02

    plain = sum(silence.end_sample - silence.start_sample for silence in silences(speech))
    moved = sum(silence.end_sample - silence.start_sample for silence in silences(speech + 0.2))

    assert abs(plain - moved) < 8000


def test_two_detectors_share_nothing():
    """Interleaved streams get the same probabilities as separate ones."""
    frames = (np.random.default_rng(19).standard_normal((20, 512)) * 0.1).astype(np.float32)
    alone, first, second = SileroDetector(), SileroDetector(), SileroDetector()

    expected = [alone(frame) for frame in frames]

    assert [(first(frame), second(frame * 0.5))[0] for frame in frames] == expected
    assert all(0.0 <= probability <= 1.0 for probability in expected)
