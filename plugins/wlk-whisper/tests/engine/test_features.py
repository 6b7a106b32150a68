"""The encoder's window around a stretch of audio, and the token budget of its text."""

from __future__ import annotations

from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.features import (
    SILENCE_STRIDE,
    WINDOW_MEL_FRAMES,
    audio_encoder_frames,
    following_silence,
    log_mel,
    silence_features,
    window_mel_frames,
)
from wlk_whisper.engine.prompt import token_budget
from wlk_whisper.engine.tokenizer_file import read_tokenizer

HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)


@given(st.integers(1, 480_000))
def test_a_fitted_window_contains_the_audio_and_half_a_second_of_silence(samples):
    """Windows are whole seconds, two at least, thirty at most."""
    frames = window_mel_frames(samples, "fitted")

    assert window_mel_frames(samples, "full") == WINDOW_MEL_FRAMES
    assert frames % 100 == 0
    assert 200 <= frames <= WINDOW_MEL_FRAMES
    assert frames == WINDOW_MEL_FRAMES or frames * 160 >= samples + 8000
    assert frames == 200 or (frames - 100) * 160 < samples + 8000


@given(st.integers(1, 480_000))
def test_a_padded_window_contains_the_audio_and_a_second_of_silence(samples):
    """Windows are whole encoder frames, thirty seconds at most."""
    frames = window_mel_frames(samples, "padded")

    assert frames % 2 == 0
    assert frames == WINDOW_MEL_FRAMES or 16_000 <= frames * 160 - samples < 16_480


@given(st.integers(1, 1499), st.sampled_from([1, SILENCE_STRIDE]))
def test_silence_after_the_audio_is_the_same_frames_however_long_the_audio_is(frames, stride):
    """They are every nth frame of 30 s, the last one included."""
    whole = range(1500)
    following = whole[following_silence(frames, stride)]

    assert [*following] == [
        frame for frame in whole[following_silence(0, stride)] if frame >= frames
    ]
    assert following.step == stride
    assert following[-1] == 1499


def test_silence_has_the_features_of_zeros():
    """The features of a window that is padded with silence are those of zeros."""
    zeros = log_mel(FeatureExtractor(), np.zeros(0, dtype=np.float32), WINDOW_MEL_FRAMES)

    np.testing.assert_allclose(zeros, silence_features(80), atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "frames"), [(1, 1), (160, 1), (640, 2), (16_000, 50), (16_001, 50)]
)
def test_encoder_frames_are_those_that_the_audio_reaches(samples, frames):
    """A frame of 20 ms counts once its second mel frame has begun; there is at least one."""
    assert audio_encoder_frames(samples) == frames


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("my", "ကျွန်တော်တို့ ဒီနေ့ အလုပ်သွားမယ်"),
        ("bo", "བཀྲ་ཤིས་བདེ་ལེགས།"),
        ("ka", "გამარჯობა დღეს სამსახურში მივდივარ"),
        ("te", "ఈ రోజు నేను పనికి వెళ్తున్నాను"),
        ("hi", "नमस्ते आज मैं काम पर जा रहा हूँ"),
        ("en", "hello today I am going to work"),
        ("ja", "こんにちは今日は仕事に行きます"),
        ("ru", "привет сегодня я иду на работу"),
    ],
)
def test_fast_speech_fits_the_budget_in_every_script(language, text):
    """Fifteen characters a second fit, whatever their number of tokens."""
    seconds = len(text) / 15
    tokenizer = Tokenizer(HF_TOKENIZER, True, task="transcribe", language=language)

    assert len(tokenizer.encode(text)) <= token_budget(round(16_000 * seconds), language)
