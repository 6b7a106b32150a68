"""Timeline against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import Timeline

RATE = 16_000
STEPS = st.lists(
    st.one_of(
        st.integers(0, 10**6),
        st.floats(0, 4000, allow_nan=False, allow_infinity=False),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_clock_is_the_exact_sum_of_samples_and_silences(steps):
    """The end of a timeline is the exact sum, whatever the order and number of silences."""
    timeline, exact = Timeline(RATE), Fraction(0)
    for step in steps:
        if isinstance(step, int):
            timeline.append_audio(step)
            exact += Fraction(step, RATE)
        else:
            timeline.append_silence(step)
            exact += Fraction(step)

    assert float(exact) == timeline.end


@given(STEPS)
def test_times_of_samples_never_go_back(steps):
    """A later sample has a later time; its time before a silence is not later than after it."""
    timeline = Timeline(RATE)
    for step in steps:
        if isinstance(step, int):
            timeline.append_audio(step)
        else:
            timeline.append_silence(step)
    samples = sorted({0, timeline.samples // 3, timeline.samples // 2, timeline.samples})
    times = [timeline.time_of(sample) for sample in samples]

    assert times == sorted(times)
    assert all(timeline.time_of(s, before_silence=True) <= timeline.time_of(s) for s in samples)


@given(STEPS, st.integers(0, 10**6))
def test_forgetting_the_past_changes_no_later_time(steps, pivot):
    """Times from the pivot on are the same with and without the entries before it."""
    kept, pruned = Timeline(RATE), Timeline(RATE)
    for step in steps:
        for timeline in (kept, pruned):
            if isinstance(step, int):
                timeline.append_audio(step)
            else:
                timeline.append_silence(step)
    pivot = min(pivot, kept.samples)
    pruned.forget_before(pivot)

    for sample in {pivot, (pivot + kept.samples) // 2, kept.samples}:
        assert kept.time_of(sample) == pruned.time_of(sample)


def test_a_sample_at_a_silence_has_two_times():
    """A sample after a silence has the time before the silence or the time after it."""
    timeline = Timeline(RATE)
    timeline.append_audio(RATE)
    timeline.append_silence(2.5)

    assert 1.0 == timeline.time_of(RATE, before_silence=True)
    assert 3.5 == timeline.time_of(RATE)


def test_a_sample_that_never_came_is_an_error():
    """The time of a sample that was not appended raises IndexError."""
    with pytest.raises(IndexError, match="sample 1 is not on the clock yet"):
        Timeline(RATE).time_of(1)
