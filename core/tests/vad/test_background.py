"""Comparing frames with the background, and the model calls that this saves."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.testing.digits import clip_path
from wlk_core.audio import decode_file
from wlk_core.vad import SilenceEnded, SilenceGate, SileroDetector
from wlk_core.vad.detector import Background

CLIP = np.concatenate(list(decode_file(clip_path("demo"))))  # 12.5 s
SIZE = 512
RANDOM = np.random.default_rng(29)
TIME = np.arange(16_000 * 30) / 16_000
BACKGROUNDS = {
    "zeros": np.zeros_like(TIME),
    "dither": RANDOM.integers(-1, 2, len(TIME)) / 32_768,
    "low noise": RANDOM.standard_normal(len(TIME)) * 0.001,
    "rumble": np.cumsum(RANDOM.standard_normal(len(TIME))) * 1e-5,
    "mains hum": np.sin(2 * np.pi * 50 * TIME) * 0.05,
}


def frames(audio):
    """Return *audio* in whole frames."""
    audio = audio[: len(audio) // SIZE * SIZE].astype(np.float32)
    return audio.reshape(-1, SIZE)


def learned(audio):
    """Return a background that learned all of *audio*."""
    background = Background(SIZE)
    for frame in frames(audio):
        background.learn(background.powers(frame))
    return background


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_a_steady_background_contains_its_own_frames(name):
    """Of thirty seconds, nearly all frames are recognised."""
    background = learned(BACKGROUNDS[name])

    contained = [background.contains(background.powers(f)) for f in frames(BACKGROUNDS[name])]

    assert sum(contained) > 0.99 * len(contained)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_a_vowel_far_below_hum_and_rumble_is_no_background(name):
    """Octaves are compared one by one: 34 dB below the hum, the overtones stand out."""
    background = learned(BACKGROUNDS[name])
    vowel = sum(np.sin(2 * np.pi * f * TIME[:SIZE]) for f in (700, 1100, 2500)) * 0.001

    mixed = (BACKGROUNDS[name][:SIZE] + vowel).astype(np.float32)

    assert not background.contains(background.powers(mixed))


def test_nothing_is_background_before_anything_was_learned():
    """The first frames are given to the model."""
    background = Background(SIZE)

    assert not background.contains(background.powers(np.zeros(SIZE, np.float32)))


def run(audio, *, is_full=False):
    """Return which samples of *audio* a gate passes on, and the frames its model was given."""
    detector = SileroDetector()
    if is_full:
        detector._background.contains = lambda _: False
    gate = SilenceGate(detector)
    passed = np.ones(len(audio), bool)
    for event in [*gate.push(audio.astype(np.float32)), *gate.flush()]:
        if isinstance(event, SilenceEnded):
            passed[event.start_sample : event.end_sample] = False
    return passed, detector.model_calls


@pytest.mark.slow  # a minute of sound, a model call of a millisecond for each 32 ms
@pytest.mark.parametrize("noise", [0.0, 0.0005, 0.01])
def test_pauses_of_speech_are_those_of_the_whole_model(noise):
    """Up to four seconds of silence every frame is given to the model: nothing differs."""
    pause = np.zeros(16_000 * 3)
    audio = np.concatenate([CLIP, pause, CLIP])
    audio += RANDOM.standard_normal(len(audio)) * noise

    passed, calls = run(audio)
    expected, full_calls = run(audio, is_full=True)

    assert np.array_equal(expected, passed)
    assert full_calls == calls


@pytest.mark.slow  # a minute of sound
@pytest.mark.parametrize("name", ["zeros", "low noise", "mains hum"])
def test_speech_after_a_long_silence_is_passed_on_as_by_the_whole_model(name):
    """No speech begins later; its end, in the hang-over, differs by three frames at most."""
    audio = BACKGROUNDS[name].copy()
    audio[-len(CLIP) :] += CLIP

    passed, calls = run(audio)
    expected, full_calls = run(audio, is_full=True)

    assert np.argmax(passed) <= np.argmax(expected)
    assert (expected & ~passed).sum() <= 3 * SIZE
    assert (passed & ~expected).sum() < 16_000
    assert calls < full_calls - 200


@pytest.mark.slow  # five minutes without speech
@pytest.mark.parametrize("name", ["zeros", "dither", "low noise", "mains hum"])
def test_silence_takes_few_model_calls(name):
    """A second of silence takes less than two calls of the model instead of 31."""
    audio = np.concatenate([BACKGROUNDS[name]] * 10)

    passed, calls = run(audio)

    assert not passed.any()
    assert calls / 300 < 2


def test_a_reset_forgets_the_background():
    """The next stream begins as the first one did."""
    detector = SileroDetector()
    quiet = frames(BACKGROUNDS["zeros"])[:200]

    first = [detector(frame) for frame in quiet], detector.model_calls
    detector.reset()
    second = [detector(frame) for frame in quiet], detector.model_calls - first[1]

    assert first == second
