"""Times in order and within the audio."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_whisper.openai_api.response import ResponseWord
from wlk_whisper.openai_api.time_order import TimeOrderError, in_order

SECONDS = st.floats(-100.0, 100.0) | st.floats(allow_nan=False, allow_infinity=False)


def spans(*times):
    """Return words with these times."""
    return tuple(ResponseWord(text="x", start=start, end=end) for start, end in times)


def times(*pairs, audio_seconds=10.0):
    """Return the times after they were put in order."""
    ordered = in_order(spans(*pairs), audio_seconds=audio_seconds)
    return [(span.start, span.end) for span in ordered]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0.0, 0.4), (0.4, 0.9)], [(0.0, 0.4), (0.4, 0.9)]),
        ([(-0.5, 0.4)], [(0.0, 0.4)]),
        ([(9.5, 10.5), (12.0, 13.0)], [(9.5, 10.0), (10.0, 10.0)]),
        ([(2.0, 1.0)], [(2.0, 2.0)]),
        ([(1.0, 1.5), (0.2, 0.6)], [(1.0, 1.5), (1.5, 1.5)]),
        ([(1.0, 2.0), (1.5, 3.0)], [(1.0, 2.0), (1.5, 3.0)]),
    ],
    ids=["in order", "before", "after", "backwards", "swapped", "overlapping"],
)
def test_times_are_put_right(pairs, expected):
    """No word is left out, and each has the time nearest to its own that is possible."""
    assert expected == times(*pairs)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(500.0, 900.0)], "within the 10.0 s sent, got 500 to 900"),
        ([(0.0, 1e300)], "got 0 to 1e"),
        ([(5.0, 5.5), (1.0, 1.5)], "in the order of their times, got 1 s after 5 s"),
    ],
    ids=["milliseconds", "absurd", "shuffled"],
)
def test_times_of_something_else_are_refused(pairs, message):
    """Times in other units, or of words in another order, would be wrong however they are moved."""
    with pytest.raises(TimeOrderError, match=message):
        times(*pairs)


@given(pairs=st.lists(st.tuples(SECONDS, SECONDS), max_size=12), audio_seconds=st.floats(0.1, 30.0))
def test_any_times_are_in_order_or_refused(pairs, audio_seconds):
    """Starts never go back, no word ends before it starts, and all lie within the audio."""
    try:
        ordered = times(*pairs, audio_seconds=audio_seconds)
    except TimeOrderError:
        return

    assert len(pairs) == len(ordered)
    assert all(0.0 <= start <= end <= audio_seconds for start, end in ordered)
    assert sorted(start for start, _ in ordered) == [start for start, _ in ordered]
