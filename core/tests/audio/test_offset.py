"""Removing a constant offset, and leaving all other sound as it is."""

from __future__ import annotations

import io
import wave

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing.digits import clip_path
from wlk_core.audio import decode_file
from wlk_core.audio.decode import resampled
from wlk_core.audio.gaps import Piece
from wlk_core.audio.offset import OffsetRemoval
from wlk_core.errors import AudioFormatError

VOICE = (np.random.default_rng(31).standard_normal(16_000 * 3) * 0.1).astype(np.float32)


def whole(removal, samples, cuts=()):
    """Push *samples* in the pieces that *cuts* make and return everything that comes out."""
    out = [removal.push(piece) for piece in np.split(samples, sorted(cuts))]
    return np.concatenate([*out, removal.flush()])


@settings(deadline=None, derandomize=True, max_examples=40)
@given(cuts=st.lists(st.integers(0, 48_000), max_size=12), offset=st.sampled_from([0.0, -0.3]))
def test_the_cut_of_the_sound_changes_nothing(cuts, offset):
    """Any pieces give the samples that one piece gives, bit for bit."""
    samples = VOICE + np.float32(offset)

    expected = whole(OffsetRemoval(16_000), samples)

    assert np.array_equal(expected, whole(OffsetRemoval(16_000), samples, cuts))


@pytest.mark.parametrize("offset", [0.01, -0.05, 0.2, 0.5])
def test_an_offset_is_removed_from_the_first_sample_on(offset):
    """The mean of the first block is known before its first sample is returned."""
    cleaned = whole(OffsetRemoval(16_000), VOICE + np.float32(offset))

    assert len(VOICE) == len(cleaned)
    assert np.abs(cleaned - VOICE).max() < 0.006


def test_no_tone_of_a_voice_is_moved():
    """A click stays at its sample, and a tone of 100 Hz keeps its phase."""
    tone = (np.sin(2 * np.pi * 100 * np.arange(48_000) / 16_000) * 0.3).astype(np.float32)
    tone[20_000] += 0.5

    cleaned = whole(OffsetRemoval(16_000), tone + np.float32(0.2))

    assert int(np.argmax(cleaned)) == 20_000
    assert np.abs(cleaned - tone).max() < 0.002


def test_sound_around_digital_silence_has_no_offset():
    """Zeros between the sounds prove that a mean is the sound's own."""
    samples = np.tile(np.repeat(np.array([0.0, 0.1], np.float32), 4000), 12)

    assert np.array_equal(samples, whole(OffsetRemoval(16_000), samples))


def test_an_offset_after_digital_silence_is_removed():
    """A recorder that begins with zeros gets its offset removed from the second block on."""
    samples = np.concatenate([np.zeros(16_000, np.float32), VOICE + np.float32(0.2)])

    cleaned = whole(OffsetRemoval(16_000), samples)

    assert np.array_equal(samples[:16_000], cleaned[:16_000])
    assert np.abs(cleaned[32_000:] - VOICE[16_000:]).max() < 0.006


def test_an_offset_that_changes_is_followed():
    """Two seconds after another device was plugged in, nearly all of its offset is gone."""
    steps = np.repeat(np.array([0.001, 0.2, -0.1], np.float32), 16_000 * 6)

    cleaned = whole(OffsetRemoval(16_000), steps)

    assert np.array_equal(steps[: 16_000 * 6], cleaned[: 16_000 * 6])
    assert np.abs(cleaned[16_000 * 10 : 16_000 * 12]).max() < 0.03
    assert np.abs(cleaned[16_000 * 16 :]).max() < 0.05


@pytest.mark.parametrize("clip", ["demo", "fast", "high", "low", "noisy", "pauses", "twice"])
def test_recorded_speech_is_not_changed(clip):
    """Real recordings without a defect pass bit for bit."""
    audio = np.concatenate(list(decode_file(clip_path(clip))))

    assert np.array_equal(audio, whole(OffsetRemoval(16_000), audio))


def test_zeros_that_fill_a_gap_stay_zeros():
    """Only sound has an offset."""
    sound = Piece(rate=16_000, samples=np.full(12_000, 0.2, np.float32))
    gap = Piece(rate=16_000, samples=np.zeros(16_000, np.float32), fills_gap=True)

    out = np.concatenate(list(resampled(iter([sound, gap, sound]))))

    assert 40_000 == len(out)
    assert np.abs(out).max() < 1e-6


def test_sound_held_back_comes_before_a_failure():
    """A recording that fails within its first block loses nothing that was decoded."""

    def damaged():
        yield Piece(rate=8000, samples=np.full(100, 0.1, np.float32))
        raise AudioFormatError("damaged")

    received = []
    with pytest.raises(AudioFormatError, match="damaged"):
        received.extend(resampled(damaged()))

    assert 200 == sum(map(len, received))


def test_a_file_is_decoded_without_its_offset():
    """`decode_file` removes what the sound card added, at any rate."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((1, 2, 44_100, 0, "NONE", ""))
        wav.writeframes(np.full(44_100, 6554, np.int16).tobytes())

    audio = np.concatenate(list(decode_file(file)))

    assert 16_000 == len(audio)
    assert np.abs(audio).max() < 1e-3
