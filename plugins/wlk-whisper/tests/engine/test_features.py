"""The encoder's window around a stretch of audio."""

from __future__ import annotations

from faster_whisper.feature_extractor import FeatureExtractor
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_whisper.engine.features import (
    WINDOW_MEL_FRAMES,
    audio_encoder_frames,
    log_mel,
    silence_features,
    window_mel_frames,
)


@given(st.integers(1, 480_000))
def test_a_fitted_window_contains_the_audio_and_half_a_second_of_silence(samples):
    """Windows are whole seconds, two at least, thirty at most."""
    frames = window_mel_frames(samples, "fitted")

    assert WINDOW_MEL_FRAMES == window_mel_frames(samples, "full")
    assert 0 == frames % 100
    assert 200 <= frames <= WINDOW_MEL_FRAMES
    assert frames == WINDOW_MEL_FRAMES or frames * 160 >= samples + 8000
    assert frames == 200 or (frames - 100) * 160 < samples + 8000


@given(st.integers(1, 480_000))
def test_a_padded_window_contains_the_audio_and_a_second_of_silence(samples):
    """Windows are whole encoder frames, thirty seconds at most."""
    frames = window_mel_frames(samples, "padded")

    assert 0 == frames % 2
    assert frames == WINDOW_MEL_FRAMES or 16_000 <= frames * 160 - samples < 16_480


def test_silence_has_the_features_of_zeros():
    """The features of a window that is padded with silence are those of zeros."""
    zeros = log_mel(FeatureExtractor(), np.zeros(0, dtype=np.float32), WINDOW_MEL_FRAMES)

    np.testing.assert_allclose(zeros, silence_features(80), atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "frames"), [(1, 1), (160, 1), (640, 2), (16_000, 50), (16_001, 50)]
)
def test_encoder_frames_are_those_that_the_audio_reaches(samples, frames):
    """A frame of 20 ms counts once its second mel frame has begun; there is at least one."""
    assert frames == audio_encoder_frames(samples)
