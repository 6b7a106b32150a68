"""Repetition loops in sequences of tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import Loop, find_loop

TOKENS = st.lists(st.sampled_from("ab"), max_size=14)
TIMES = st.integers(2, 4)
LONGEST = st.integers(1, 4)


def loops(tokens, *, times, longest):
    """Return every loop there is, by trying all places."""
    return [
        Loop(start=end - period * times, period=period, end=end)
        for end in range(1, len(tokens) + 1)
        for period in range(1, longest + 1)
        if end >= period * times
        and tokens[end - period * times : end] == tokens[end - period : end] * times
    ]


@given(TOKENS, TIMES, LONGEST)
def test_the_first_loop_is_found(tokens, times, longest):
    """What is found is the loop that is complete first, by its shortest n-gram."""
    found = find_loop(tokens, times=times, longest=longest)

    assert next(iter(loops(tokens, times=times, longest=longest)), None) == found


@given(TOKENS, TOKENS, TIMES, LONGEST)
def test_a_loop_stays_where_it_is(tokens, more, times, longest):
    """Tokens that follow change nothing about a loop that was found."""
    found = find_loop(tokens, times=times, longest=longest)

    if found is not None:
        assert found == find_loop(tokens + more, times=times, longest=longest)


@given(st.lists(st.integers(), unique=True), TIMES, LONGEST)
def test_different_tokens_are_no_loop(tokens, times, longest):
    """Where no token comes twice there is nothing to find."""
    assert find_loop(tokens, times=times, longest=longest) is None


@given(TOKENS, st.lists(st.sampled_from("cd"), min_size=1, max_size=4), TIMES)
def test_a_decoder_that_is_stuck_is_caught(before, said, times):
    """The same n-gram said often enough is a loop, whatever was said before it."""
    found = find_loop(before + said * times, times=times, longest=4)

    assert found is not None
    assert found.end <= len(before) + len(said) * times


@pytest.mark.parametrize(("times", "longest"), [(1, 4), (2, 0)])
def test_what_is_no_repetition_is_refused(times, longest):
    """Once is no repetition, and an n-gram has a token."""
    with pytest.raises(ValueError, match="at least 2 times"):
        find_loop("aa", times=times, longest=longest)
