"""BoundedWindow: what is kept of audio and text, and where old words end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import noise
from wlk_core.streaming import BoundedWindow, Word, words_in_order

RATE = 16_000
NOISE = noise(30.0, level=0.1, seed=2)
WORDS = st.builds(
    Word,
    st.floats(-1.0, 40.0),
    st.floats(-1.0, 40.0),
    st.sampled_from([" one", " two", ",", " extraordinary"]),
)


def window_of(**options):
    """Return a window over Words; by default one that is transcribed as a whole."""
    defaults = {
        "prefix_is_forced": False,
        "prompt": "",
        "tick_seconds": 1.0,
        "buffer_seconds": 12.0,
        "max_seconds": 28.0,
    }
    return BoundedWindow(lambda word: word, **(defaults | options))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.lists(WORDS, max_size=2), st.integers(0, 2)), min_size=8, max_size=30),
    st.booleans(),
    st.sampled_from([1, 320, 32_000]),
)
def test_audio_and_text_are_bounded_and_none_is_lost(steps, is_forced, cut_samples):
    """Whatever an engine returns, the window has room for a tick and every committed word once."""
    window = window_of(
        prefix_is_forced=is_forced, prompt="names", max_seconds=10.0, cut_samples=cut_samples
    )
    window.buffer.append(NOISE)
    text, starts = "names", [0]
    for second, (drawn, count) in enumerate(steps, start=1):
        stop = window.next_stop(is_last=False)
        words = words_in_order(drawn, floor=window.start / RATE, limit=second)
        assert second * RATE == stop
        assert np.array_equal(NOISE[window.start : stop], window.audio(stop))
        assert stop - window.start <= 10 * RATE
        window.processed = stop
        window.commit(words[:count])
        forced = window.bound(words[count:], is_quiet=not words)
        text += "".join(word.text for word in words[: count + forced])
        starts.append(window.start)

        held = (window.prompt + "".join(word.text for word in window.prefix)).strip()
        assert text.endswith(held)
        assert len(window.prompt) <= 200
        assert len(held) >= min(len(text), 180)
    assert starts == sorted(starts)
    assert all(start % cut_samples == 0 for start in starts)


@pytest.mark.parametrize(
    ("last", "following", "remainder"),
    [
        (Word(7.5, 8.6, " seventeen"), (), 0.0),
        (Word(7.5, 7.9, " one"), (), 0.0),
        (Word(7.5, 8.2, " seven"), (), 0.2),
        (Word(7.5, 8.2, " seven"), (Word(8.15, 8.4, " two"),), 0.15),
        (Word(6.5, 9.4, " and"), (), 0.0),
    ],
    ids=["its word is kept", "before the cut", "inside", "to the next word", "too long"],
)
def test_the_remainder_is_the_end_of_the_last_word_that_became_prompt(last, following, remainder):
    """It ends where the next committed word begins, and an alignment error leaves none."""
    window = window_of(prefix_is_forced=True, cut_samples=8 * RATE)
    window.buffer.append(noise(13.0))
    window.processed = 13 * RATE
    window.commit([last, *following])
    window.bound([Word(9.6, 9.9, " two")], is_quiet=False)

    assert 8 * RATE == window.start
    assert round(remainder * RATE) == window.remainder_samples


def test_the_prompt_is_whole_words():
    """A long transcript is cut between words, and a word longer than the prompt inside."""
    window = window_of(prompt="a" * 150 + " " + "b" * 120)
    endless = window_of(prompt="c" * 500)

    assert "b" * 120 == window.prompt
    assert "c" * 200 == endless.prompt
