"""Loudness, word onsets, and log-mel frames that do not depend on how audio is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import noise, silence, tone
from wlk_frameworks.features import EnergyContour, LogMel, loudness, true_runs

RATE = 16_000
BURSTS = np.concatenate([noise(2.0, level=level, seed=3) for level in (0.01, 1e-4, 0.1, 0.003)])


def contour_of(*spans, seconds=4.0, level=1e-4, length=6.0):
    """Return the contour of noise in *spans* (seconds) and near-silence elsewhere."""
    audio = noise(seconds, level=level, seed=1)
    for start, end in spans:
        samples = slice(round(start * RATE), round(end * RATE))
        audio[samples] = noise(2.0, level=0.1, seed=2)[: samples.stop - samples.start]
    contour = EnergyContour(length)
    for step in audio.reshape(-1, 1280):
        contour.append(step)
    return contour


def onset(contour, end, *, after=0.0):
    """Return the start of a word that was complete 0.24 s after its end."""
    return contour.word_onset(end, after=after, now=end + 0.24)


def test_loudness_is_the_mean_power_of_whole_frames():
    """A constant of 0.1 is at -20 dB, silence at -120 dB, and an incomplete frame is omitted."""
    audio = np.concatenate([np.full(160, 0.1), np.zeros(160 + 159)]).astype(np.float32)

    assert loudness(audio).tolist() == pytest.approx([-20.0, -120.0])


@given(st.lists(st.booleans(), max_size=30))
def test_true_runs_cover_every_true_flag_once(flags):
    """The runs are in order, do not touch each other and contain only true flags."""
    found = true_runs(np.array(flags, dtype=np.bool_))
    covered = [index for first, end in found for index in range(first, end)]

    assert covered == [index for index, flag in enumerate(flags) if flag]
    assert all(later[0] > run[1] for run, later in pairwise(found))


@settings(deadline=None, derandomize=True)  # seconds of audio each time
@given(st.floats(0.2, 2.5), st.floats(0.15, 1.0), st.floats(0.0, 0.079))
def test_a_word_begins_where_sound_begins(start, length, late):
    """An end up to 80 ms late does not move the onset: the silence after a word is not speech."""
    contour = contour_of((start, start + length))

    assert start == pytest.approx(onset(contour, start + length + late), abs=0.011)


def test_a_pause_divides_words_and_a_closure_does_not():
    """A stop of 70 ms is part of a word; 200 ms of quiet is a pause between words."""
    contour = contour_of((0.5, 0.9), (1.1, 1.4), (1.47, 1.7))

    assert onset(contour, 1.76) == pytest.approx(1.1, abs=0.011)


def test_words_without_a_pause_are_divided_by_the_end_of_the_first():
    """Without a pause a word begins where the word before it ended."""
    assert onset(contour_of((0.5, 1.6)), 1.6, after=1.0) == pytest.approx(1.0, abs=0.011)


@settings(deadline=None, derandomize=True)
@given(st.floats(0, 10), st.floats(0, 10), st.floats(0.08, 8.0))
def test_an_onset_lies_between_the_word_before_and_the_end(after, end, length):
    """However much of the utterance the contour covers, the times are in order."""
    start = onset(contour_of((0.5, 0.9), length=length), end, after=after)

    assert min(after, end) <= start <= end or start == pytest.approx(end)


def test_in_silence_a_word_begins_at_most_the_longest_word_before_its_end():
    """A word without sound still has a start: 1.2 s before its end."""
    contour = EnergyContour(6.0)
    contour.append(silence(4.0))

    assert onset(contour, 3.0) == pytest.approx(3.0 - 1.2, abs=0.011)


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 60), st.integers(1, 30), st.sampled_from([0.5, 2.0, 6.0]))
def test_an_onset_does_not_depend_on_how_much_arrived_at_once(steps, more, length):
    """Audio after the word is complete, and frames dropped for their age, change no onset."""
    now = 0.08 * steps
    prompt, late = EnergyContour(length), EnergyContour(length)
    for step in BURSTS[: 1280 * steps].reshape(-1, 1280):
        prompt.append(step)
        prompt.trim(prompt.samples / RATE)
    late.append(BURSTS[: 1280 * (steps + more)])
    onsets = [contour.word_onset(now - 0.2, after=0.3, now=now) for contour in (prompt, late)]

    assert onsets[0] == onsets[1]


def test_the_contour_of_a_long_utterance_is_bounded():
    """After every ten seconds the contour holds six seconds of frames."""
    contour = EnergyContour(6.0)
    held = []
    for seconds in range(10, 60, 10):
        contour.append(np.zeros(160_000, dtype=np.float32))
        contour.trim(seconds)
        held.append(contour.nbytes)

    assert held == [4 * 600] * 5
    assert contour.samples == 50 * RATE


MEL = LogMel()


def test_a_frame_comes_for_every_window_that_fits():
    """Nothing is padded: 400 samples give one frame, and each 160 more give another."""
    lengths = [len(MEL(silence(1.0)[:samples])) for samples in (0, 399, 400, 559, 560, 16_000)]

    assert lengths == [0, 0, 1, 1, 2, 98]


@settings(deadline=None, derandomize=True)  # a second of features each time
@given(st.integers(0, 60), st.integers(1, 40), st.integers(0, 2**16))
def test_frames_do_not_depend_on_their_neighbours(first, count, seed):
    """Cutting the audio between frames gives the same frames as the whole, bit for bit."""
    audio = noise(1.1, level=0.1, seed=seed)
    whole = MEL(audio)[first : first + count]
    alone = MEL(audio[160 * first : 160 * (first + count) + 240])

    np.testing.assert_array_equal(whole, alone)


def test_silence_lies_at_the_floor_and_loud_sounds_below_the_ceiling():
    """Energy eight or more decades below the ceiling maps to one value."""
    assert np.unique(MEL(silence(0.1))) == pytest.approx([(1.5 - 8 + 4) / 4])
    assert MEL(tone(0.1, hertz=1000.0, level=1.0)).max() > 1.0


def test_a_tone_is_loudest_where_it_is():
    """1 kHz lies at mel 15 of 45.2 on the Slaney scale."""
    loudest = MEL(tone(0.2, hertz=1000.0)).mean(axis=0).argmax()

    assert loudest == pytest.approx(15 / 45.245640471924965 * 129 - 1, abs=1)
