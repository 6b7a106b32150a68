"""A decoder that keeps state between its calls: where it is cut, when it forgets, what it holds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import AlignAttRecognizer, AlignedHypothesis, AlignedWord, OnlineStream
from wlk_core.streaming import AlignAtt, Word
from wlk_core.testing import StreamDriver

RATE = 16_000
FRAME = 640
WINDOW = 8 * RATE


class Keeping:
    """A decoder that hears a word in the first 0.4 s of every second, and counts what it keeps."""

    def __init__(self):
        self.calls = []
        self.nbytes = 0
        self.runs = 0

    def __call__(self, audio, *, first_sample, context, prompt, language, is_last):
        """Return every word behind the context whose first half is in the audio."""
        self.calls.append((first_sample, len(audio)))
        self.nbytes = len(audio)
        end = (first_sample + len(audio)) / RATE
        heard = []
        for second in range(int(end) + 1):
            start, stop = second - first_sample / RATE, second + 0.4 - first_sample / RATE
            if (start + stop) / 2 >= 0 and second + 0.2 <= end:
                word = Word(start, min(stop, len(audio) / RATE), f" w{second}")
                heard.append(AlignedWord(word=word, frames=(int(word.middle * RATE / FRAME),)))
        return AlignedHypothesis(words=tuple(heard[len(context) :]), language="en")

    def reset(self):
        """Let go of everything."""
        self.runs += 1
        self.nbytes = 0


def over(decoder, **chosen):
    """Return a recognizer whose buffer is cut at whole windows."""
    return AlignAttRecognizer(
        decoder,
        policy=AlignAtt(border_frames=5, rewind_frames=50),
        frame_samples=FRAME,
        cache=decoder,
        **{"cut_samples": WINDOW, **chosen},
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.05, 6.0), min_size=1, max_size=20))
def test_cuts_fall_on_whole_windows_and_lose_no_word(seconds):
    """However audio comes, the decoder's windows stay where they are in the run."""
    decoder = Keeping()
    driver = StreamDriver(OnlineStream(lambda: over(decoder)))
    for length in seconds:
        driver.insert(np.zeros(round(length * RATE), dtype=np.float32))
        driver.drain()
    driver.finish()

    heard = sum(round(length * RATE) for length in seconds) / RATE
    spoken = [f" w{second}" for second in range(int(heard) + 1) if second + 0.2 <= heard]
    assert "".join(spoken).strip() == "".join(token.text for token in driver.tokens).strip()
    assert all(first % WINDOW == 0 for first, _ in decoder.calls)
    assert max(length for _, length in decoder.calls) <= 20 * RATE


def test_state_is_counted_and_forgotten_with_each_run():
    """A pause ends a run: nothing of it is kept, and what is held says so."""
    decoder = Keeping()
    recognizer = over(decoder)
    began, empty = decoder.runs, recognizer.state_bytes
    recognizer.feed(np.zeros(3 * RATE, dtype=np.float32))
    while recognizer.step(is_last=False) is not None:
        pass

    assert decoder.nbytes == 3 * RATE
    assert recognizer.state_bytes >= empty + 4 * 3 * RATE + decoder.nbytes

    recognizer.end_utterance(" w2")

    assert began + 1 == decoder.runs
    assert empty == recognizer.state_bytes


class Scripted:
    """A decoder that hears what it is told to, as far as its audio goes, and keeps nothing."""

    nbytes = 0

    def __init__(self, words):
        self.words = words
        self.calls = []

    def __call__(self, audio, *, first_sample, context, prompt, language, is_last):
        """Return the words behind the context: text, seconds of the run, and where it looks."""
        self.calls.append((first_sample, len(audio)))
        first, end = first_sample / RATE, (first_sample + len(audio)) / RATE
        heard = [
            AlignedWord(
                word=Word(start - first, min(stop, end) - first, text),
                frames=(int((min(looks, end - 0.01) - first) * RATE / FRAME),),
            )
            for text, start, stop, looks in self.words(first, end)
            if start < end
        ]
        return AlignedHypothesis(words=tuple(heard[len(context) :]), language="en")

    def reset(self):
        """Let go of nothing."""


def committed(recognizer, seconds):
    """Return the texts of what is committed of so many seconds."""
    recognizer.feed(np.zeros(round(seconds * RATE), dtype=np.float32))
    words = []
    for is_last in (False, True):
        while (step := recognizer.step(is_last=is_last)) is not None:
            words += [word.text for word in step.committed]
    return words


@pytest.mark.parametrize(
    ("start", "stop", "looks"), [(8.0, 8.3, 8.2), (8.1, 8.38, 8.15), (8.0, 8.3, 8.25)]
)
def test_what_a_cut_leaves_of_a_long_word_is_no_word(start, stop, looks):
    """Nearly half of it may lie behind a cut at whole windows, and be heard as another word."""

    def words(first, end):
        if first:
            return [(" teen", start, stop, looks)]
        return [(" seventeen", 7.5, 8.3, 8.16)]

    decoder = Scripted(words)

    assert [" seventeen"] == committed(over(decoder), 14)
    assert 8 * RATE in {first for first, _ in decoder.calls}


def test_a_short_word_behind_a_cut_is_kept_where_the_one_before_seemed_longer():
    """The end of a word is a guess: what is heard farther on is another word."""

    def words(first, end):
        # Until the cut the second one is heard late, so that it is not final.
        up = (" up", 8.3, 8.6, 8.4 if first else end)
        return [up] if first else [(" seventeen", 7.2, 8.7, 8.2), up]

    decoder = Scripted(words)

    assert [" seventeen", " up"] == committed(over(decoder), 14)
    assert 8 * RATE in {first for first, _ in decoder.calls}


def test_a_cut_that_is_forced_moves_on_by_whole_windows():
    """Also where the next word that is not final begins within the first one."""
    decoder = Scripted(lambda first, end: [(" la", first + 2.0, end, end)])
    committed(over(decoder), 90)

    assert max(length for _, length in decoder.calls) <= 28 * RATE
    assert {first % WINDOW for first, _ in decoder.calls} == {0}


@given(st.floats(0.2, 10.0), st.integers(1, 200), st.floats(8.0, 28.0))
@settings(max_examples=40, deadline=None)
def test_no_decoder_is_given_more_than_its_bound(tick, frames, most):
    """The longest buffer, or twice a tick and a cut."""
    cut = frames * FRAME
    if 2 * cut > round(most * RATE) - round(tick * RATE):
        return
    decoder = Scripted(lambda first, end: [(" la", first + 1.0, end, end)])
    committed(over(decoder, cut_samples=cut, tick_seconds=tick, max_seconds=most), 60)

    bound = max(most * RATE, 2 * (cut + tick * RATE)) + 1
    assert max(length for _, length in decoder.calls) <= bound


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"cut_samples": 1000}, "whole frames of 640 samples, got 1000"),
        ({"cut_samples": 0}, "cuts at 1 to 216000 samples.*got 0"),
        ({"cut_samples": -FRAME}, "got -640"),
        ({"cut_samples": 14 * RATE}, "half of 28 s less a tick of 1 s, got 224000"),
        ({"tick_seconds": 13.0}, "half of 28 s less a tick of 13 s, got 128000"),
    ],
)
def test_cuts_that_could_not_be_made_are_refused(chosen, message):
    """The decoder counts whole frames from the cut, and a forced one has to find a place."""
    with pytest.raises(ValueError, match=message):
        over(Keeping(), **chosen)


def test_the_longest_tick_of_a_window_of_eight_seconds_is_taken():
    """Ten seconds, of which a buffer of 28 s leaves two windows and more."""
    over(Keeping(), tick_seconds=10.0)
