"""Mixing channels, and subtracting two that cancel each other."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from wlk_core.audio import decode_file

RANDOM = np.random.default_rng(37)
VOICE = (RANDOM.standard_normal(16_000) * 0.1).astype(np.float32)
OTHER = (RANDOM.standard_normal(16_000) * 0.1).astype(np.float32)


def decoded(*channels):
    """Return the sound of a wav file of these channels, and the channels as it holds them."""
    integers = (np.stack(channels, axis=1) * 32_767).astype(np.int16)
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((len(channels), 2, 16_000, 0, "NONE", ""))
        wav.writeframes(integers.tobytes())
    return np.concatenate(list(decode_file(file))), integers.astype(np.float32) / 32_768


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_channels_that_cancel_give_the_sound_of_the_first(noise):
    """Their mean would be silence; noise of each channel's own hides nothing."""
    audio, _ = decoded(VOICE, -VOICE + OTHER * np.float32(noise))

    assert np.corrcoef(VOICE, audio)[0, 1] > 0.98
    assert np.square(audio).mean() == pytest.approx(np.square(VOICE).mean(), rel=0.2)


@pytest.mark.parametrize(
    "channels",
    [
        (VOICE, VOICE),
        (VOICE, OTHER),
        (VOICE, np.zeros_like(VOICE)),
        (VOICE, -VOICE * 0.4),
        (VOICE * 1e-3, -VOICE * 1e-3),
        (VOICE, -VOICE, OTHER),
    ],
    ids=["same", "another voice", "none", "partly reversed", "silence", "three"],
)
def test_other_channels_are_averaged(channels):
    """Two speakers on two channels, or one near one microphone, give the mean, bit for bit."""
    audio, stored = decoded(*channels)

    assert np.array_equal(stored.mean(axis=1, dtype=np.float32), audio)
