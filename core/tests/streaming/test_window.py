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


def filled(audio, *, committed=(), upcoming=(), **options):
    """Return a window that decoded all of *audio*, whole seconds, in one step."""
    window = window_of(**options)
    window.buffer.append(audio)
    window.processed = len(audio)
    window.commit(committed)
    forced = window.bound(upcoming, is_quiet=False)
    return window, forced


def bursts(*spans, seconds):
    """Return noise in *spans* (seconds) and digital silence elsewhere."""
    audio = np.zeros(round(seconds * RATE), dtype=np.float32)
    for start, end in spans:
        samples = slice(round(start * RATE), round(end * RATE))
        audio[samples] = noise(end - start, level=0.1, seed=1)[: samples.stop - samples.start]
    return audio


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


def test_the_end_of_a_complete_utterance_is_the_last_stop():
    """Steps end on the grid; what is left is decoded only when no more audio will come."""
    window = window_of(tick_seconds=2.0)
    window.buffer.append(np.zeros(5 * RATE, dtype=np.float32))
    stops = []
    for is_last in (False, False, False, True, True):
        stops.append(window.next_stop(is_last=is_last))
        window.processed = stops[-1] or window.processed

    assert [2 * RATE, 4 * RATE, None, 5 * RATE, None] == stops
    assert [True, True, False] == [window.is_on_grid(stop) for stop in stops if stop]


def test_a_long_window_without_further_words_is_cut_next_to_the_prefix():
    """An engine that ended its text early has not emitted the words before a later pause."""
    audio = bursts((0.0, 5.0), (5.1, 11.0), seconds=13.0)
    window, _ = filled(audio, committed=[Word(4.0, 5.0, " one")])

    assert 4.9 * RATE <= window.start <= 5.05 * RATE


def test_a_long_window_is_cut_in_the_pause_after_the_prefix():
    """The cut lies between the last committed word and the next, and its words become prompt."""
    audio = bursts((0.0, 5.0), (5.6, 13.0), seconds=13.0)
    committed = [Word(4.0, 5.1, " one")]
    window, _ = filled(audio, committed=committed, upcoming=[Word(5.5, 6.0, " two")])

    assert 5.0 <= window.start / RATE <= 5.6
    assert ((), "one") == (window.prefix, window.prompt)


def test_a_long_window_without_committed_words_waits():
    """Audio whose words are not final is kept until the engine's limit forces a cut."""
    window, forced = filled(noise(20.0), upcoming=[Word(1.0, 1.5, " one")])

    assert (0, 0) == (forced, window.start)


def test_audio_without_words_is_dropped_but_for_its_end():
    """Two hypotheses without a new word leave three seconds; one leaves everything."""
    window, _ = filled(noise(9.0))
    first = window.bound((), is_quiet=True), window.start
    second = window.bound((), is_quiet=True), window.start

    assert ((0, 0), (0, 6 * RATE)) == (first, second)


def test_a_full_window_commits_the_words_of_its_older_half():
    """At the engine's limit the words before the middle are committed and their audio dropped."""
    upcoming = [Word(second, second + 0.5, f" w{second}") for second in range(0, 28, 4)]
    window, forced = filled(noise(28.0), upcoming=upcoming)

    assert 4 == forced
    assert 12.25 <= window.start / RATE <= 16.0
    assert "w0 w4 w8" == window.prompt.removesuffix(" w12")


def test_a_word_over_half_the_window_is_cut():
    """A word that never ends is an alignment error and cannot hold the window."""
    window, forced = filled(noise(28.0), upcoming=[Word(0.0, 28.0, " la")])

    assert (0, 14 * RATE) == (forced, window.start)


def test_a_forced_cut_spares_a_word_that_is_placed_too_late():
    """The sound begins at 13.76 s and its word at 13.8 s: the cut lies in the silence before."""
    audio = bursts((1.0, 13.6), (13.76, 28.0), seconds=28.0)
    upcoming = [Word(13.0, 13.6, " one"), Word(13.8, 14.3, " two")]
    window, forced = filled(audio, upcoming=upcoming)

    assert 1 == forced
    assert 13.6 * RATE < window.start < 13.76 * RATE


@pytest.mark.parametrize("is_forced", [False, True])
def test_after_a_cut_the_next_word_is_new_and_a_remainder_is_not(is_forced):
    """The cut is at 3.9 s; the word before it ended by 4.05 s, whatever its alignment claims."""
    audio = bursts((3.0, 3.8), (4.0, 13.0), seconds=13.0)
    last, following = Word(3.0, 4.6, " seven"), Word(4.05, 4.8, " two")
    window, _ = filled(audio, committed=[last], upcoming=[following], prefix_is_forced=is_forced)
    cut = window.start / RATE
    remainder = Word(cut, cut + 0.15, " en")

    assert 3.8 <= cut <= 4.0
    assert remainder.middle < window.overlap_end <= following.middle


def test_the_end_of_the_last_word_is_lowered_where_the_engine_returns_the_prefix_again():
    """An end far into the pause would hide the next word, which was not decoded before."""
    audio = bursts((3.0, 3.8), (4.0, 13.0), seconds=13.0)
    last, following = Word(3.0, 4.6, " seven"), Word(4.0, 4.4, " two")
    window, _ = filled(audio, committed=[last], upcoming=[following])

    assert window.overlap_end < following.middle < last.end


def test_the_middle_of_the_last_word_is_raised_where_the_decoder_is_forced():
    """Half of a long word may lie after a cut at whole blocks, and it is not a word."""
    last = Word(7.5, 8.6, " seventeen")
    window, _ = filled(
        noise(13.0),
        committed=[last],
        upcoming=[Word(9.0, 9.4, " two")],
        prefix_is_forced=True,
        cut_samples=8 * RATE,
    )
    early, late = Word(8.0, 8.3, " teen"), Word(8.1, 8.6, " teen")

    # The middle of the word is 8.05 s, after the cut at 8 s: it stays in the prefix.
    assert (8 * RATE, (last,), last.middle) == (window.start, window.prefix, window.overlap_end)

    last = Word(7.2, 8.6, " seventeen")
    window, _ = filled(
        noise(13.0),
        committed=[last],
        upcoming=[Word(9.0, 9.4, " two")],
        prefix_is_forced=True,
        cut_samples=8 * RATE,
    )

    assert (8 * RATE, ()) == (window.start, window.prefix)
    assert last.middle < early.middle < late.middle < window.overlap_end
    assert last.end == window.dropped_end
    assert round(0.6 * RATE) == window.remainder_samples


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
    window, _ = filled(
        noise(13.0),
        committed=[last, *following],
        upcoming=[Word(9.6, 9.9, " two")],
        prefix_is_forced=True,
        cut_samples=8 * RATE,
    )

    assert 8 * RATE == window.start
    assert round(remainder * RATE) == window.remainder_samples


@pytest.mark.parametrize("committed_text", ["", " and so on"])
def test_a_new_utterance_begins_empty(committed_text):
    """Nothing of an utterance outlives it but the end of the transcript, or the first prompt."""
    window, _ = filled(noise(13.0), committed=[Word(4.0, 5.0, " one")], prompt="names")
    window.reset(committed_text)
    fresh = window_of(prompt="names")
    fresh.reset(committed_text)

    assert (committed_text.strip() or "names") == window.prompt
    assert (0, 0, ()) == (window.start, window.processed, window.prefix)
    assert (0.0, 0.0) == (window.overlap_end, window.dropped_end)
    assert fresh.nbytes == window.nbytes


def test_the_prompt_is_whole_words():
    """A long transcript is cut between words, and a word longer than the prompt inside."""
    window = window_of(prompt="a" * 150 + " " + "b" * 120)
    endless = window_of(prompt="c" * 500)

    assert "b" * 120 == window.prompt
    assert "c" * 200 == endless.prompt


@given(st.lists(WORDS, max_size=8), st.floats(0.0, 5.0), st.floats(5.0, 30.0))
def test_words_in_order_stay_within_their_bounds(words, floor, limit):
    """Starts never go back, no word ends before it starts, and texts stay as they are."""
    ordered = words_in_order(words, floor=floor, limit=limit)
    starts = [word.start for word in ordered]

    assert [word.text for word in words] == [word.text for word in ordered]
    assert starts == sorted(starts)
    assert all(floor <= word.start <= word.end <= limit for word in ordered)
