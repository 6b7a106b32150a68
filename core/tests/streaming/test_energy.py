"""Word starts out of loudness."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.streaming import EnergyContour
from wlk_core.testing import noise, silence

RATE = 16_000
BURSTS = np.concatenate([noise(2.0, level=level, seed=3) for level in (0.01, 1e-4, 0.1, 0.003)])


def heard(*spans, seconds=4.0, level=1e-4, kept=6.0):
    """Return what is remembered of noise in *spans* (seconds) and next to nothing elsewhere."""
    audio = noise(seconds, level=level, seed=1)
    for start, end in spans:
        place = slice(round(start * RATE), round(end * RATE))
        audio[place] = noise(2.0, level=0.1, seed=2)[: place.stop - place.start]
    onsets = EnergyContour(kept)
    for cell in audio.reshape(-1, 1280):
        onsets.append(cell)
    return onsets


def _start(onsets, end, *, after=0.0):
    """Return the start of a word that was complete three steps behind its end."""
    return onsets.word_onset(end, after=after, now=end + 0.24)


@settings(deadline=None, derandomize=True)  # seconds of audio each time
@given(st.floats(0.2, 2.5), st.floats(0.15, 1.0), st.floats(0.0, 0.079))
def test_a_word_begins_where_sound_begins(start, length, late):
    """Its end may be told up to a step late: the silence behind it is not the word."""
    onsets = heard((start, start + length))

    assert start == pytest.approx(_start(onsets, start + length + late), abs=0.011)


def test_a_pause_divides_and_a_closure_does_not():
    """A stop inside a word is shorter than a pause between words."""
    onsets = heard((0.5, 0.9), (1.1, 1.4), (1.47, 1.7))

    assert 1.1 == pytest.approx(_start(onsets, 1.76), abs=0.011)


def test_words_that_run_into_each_other_are_divided_by_the_end_of_the_first():
    """Without a pause a word begins where the one before it ended."""
    assert 1.0 == pytest.approx(_start(heard((0.5, 1.6)), 1.6, after=1.0), abs=0.011)


@settings(deadline=None, derandomize=True)
@given(st.floats(0, 10), st.floats(0, 10), st.floats(0.08, 8.0))
def test_a_start_lies_between_the_word_before_and_the_end(after, end, kept):
    """Whatever is remembered, the times are in order."""
    start = _start(heard((0.5, 0.9), kept=kept), end, after=after)

    assert min(after, end) <= start <= end or start == pytest.approx(end)


def test_silence_alone_puts_the_start_somewhere_before_the_end():
    """A word that was heard in nothing still has a start, at most a long word back."""
    onsets = EnergyContour(6.0)
    onsets.append(silence(4.0))

    assert 3.0 - 1.2 == pytest.approx(_start(onsets, 3.0), abs=0.011)


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 60), st.integers(1, 30), st.sampled_from([0.5, 2.0, 6.0]))
def test_a_start_does_not_depend_on_how_much_came_at_once(cells, more, kept):
    """What came later, and what was let go of because it is too old, change nothing."""
    now = 0.08 * cells
    prompt, late = EnergyContour(kept), EnergyContour(kept)
    for cell in BURSTS[: 1280 * cells].reshape(-1, 1280):
        prompt.append(cell)
        prompt.trim(prompt.samples / RATE)
    late.append(BURSTS[: 1280 * (cells + more)])
    starts = [one.word_onset(now - 0.2, after=0.3, now=now) for one in (prompt, late)]

    assert starts[0] == starts[1]


def test_memory_is_bounded():
    """What is kept of a long run is what is kept of a short one."""
    onsets = EnergyContour(6.0)
    held = []
    for seconds in range(10, 60, 10):
        onsets.append(np.zeros(160_000, dtype=np.float32))
        onsets.trim(seconds)
        held.append(onsets.nbytes)

    assert [4 * 600] * 5 == held
    assert 50 * RATE == onsets.samples
