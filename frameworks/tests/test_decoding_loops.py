"""Loops of a decoder, and repetitions that a speaker made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_frameworks.decoding_loops import Loop, find_loop, keep_spoken_repetitions

TOKENS = st.lists(st.sampled_from("ab"), max_size=14)
TIMES = st.integers(2, 4)
LONGEST = st.integers(1, 4)


def loops(tokens, *, times, longest):
    """Return every loop, by trying all positions."""
    return [
        Loop(start=end - period * times, period=period, end=end)
        for end in range(1, len(tokens) + 1)
        for period in range(1, longest + 1)
        if end >= period * times
        and tokens[end - period * times : end] == tokens[end - period : end] * times
    ]


@given(TOKENS, TIMES, LONGEST)
def test_the_first_loop_is_found(tokens, times, longest):
    """The result is the loop that is completed first, with its shortest n-gram."""
    found = find_loop(tokens, times=times, longest=longest)

    assert next(iter(loops(tokens, times=times, longest=longest)), None) == found


LOOP = Loop(start=1, period=2, end=7)
TEXT = tuple("xabababy")


@pytest.mark.parametrize(
    ("frames", "kept"),
    [
        ([0, 5, 6, 15, 16, 25, 26, 30], "xabababy"),
        ([0, 5, 6, 15, 16, 15, 16, 30], "xab"),
        ([0, 5, 6, 5, 6, 5, 6, 7], "xab"),
        ([], "xab"),
    ],
    ids=["each round is later", "the last round is not", "no round is", "no attention"],
)
def test_only_rounds_that_advance_in_the_audio_were_spoken(frames, kept):
    """Of a decoding loop the first round is kept; of a speaker's repetition, every round."""
    assert tuple(keep_spoken_repetitions(TEXT, frames, LOOP)) == tuple(kept)
