"""Mixing channels, and noticing two that cancel each other."""

from __future__ import annotations

import io
import logging
import wave

import numpy as np
import pytest

from wlk_core.audio import decode_file
from wlk_core.audio.downmix import Downmix

RANDOM = np.random.default_rng(37)
VOICE = (RANDOM.standard_normal(16_000) * 0.1).astype(np.float32)
OTHER = (RANDOM.standard_normal(16_000) * 0.1).astype(np.float32)


def stereo_wav(left, right):
    """Return a wav file of two channels."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((2, 2, 16_000, 0, "NONE", ""))
        wav.writeframes((np.stack([left, right], axis=1) * 32_767).astype(np.int16).tobytes())
    return file


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_channels_that_cancel_give_the_sound_of_the_first_and_one_warning(noise, caplog):
    """Their mean would be silence; noise of each channel's own hides nothing."""
    file = stereo_wav(VOICE, -VOICE + OTHER * np.float32(noise))

    with caplog.at_level(logging.WARNING, logger="wlk_core.audio"):
        audio = np.concatenate(list(decode_file(file)))

    assert np.corrcoef(VOICE, audio)[0, 1] > 0.98
    assert np.square(audio).mean() == pytest.approx(np.square(VOICE).mean(), rel=0.2)
    assert 1 == len(caplog.records)
    assert "'audio data' cancel each other" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    "right",
    [VOICE, OTHER, np.zeros_like(VOICE), VOICE * 0.3, -VOICE * 0.4],
    ids=["same", "another voice", "none", "quieter", "partly reversed"],
)
def test_other_channels_are_averaged(right, caplog):
    """Two speakers on two channels, or one near one microphone, give the mean, bit for bit."""
    mixed = Downmix("x").mix(np.stack([VOICE, right]))

    assert np.array_equal(np.stack([VOICE, right]).mean(axis=0, dtype=np.float32), mixed)
    assert [] == caplog.records


def test_silence_does_not_cancel(caplog):
    """Quiet noise of opposite sign is no fault."""
    quiet = VOICE * 1e-3

    mixed = Downmix("x").mix(np.stack([quiet, -quiet]))

    assert 0 == np.abs(mixed).max()
    assert [] == caplog.records


def test_more_than_two_channels_are_averaged():
    """Surround sound is mixed as it is."""
    channels = np.stack([VOICE, -VOICE, OTHER])

    assert np.array_equal(channels.mean(axis=0, dtype=np.float32), Downmix("x").mix(channels))
