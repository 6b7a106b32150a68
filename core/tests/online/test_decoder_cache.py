"""AlignAttRecognizer over a decoder with a cache: where it cuts, when it resets the cache."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import (
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    OnlineStream,
)
from wlk_core.streaming import AlignAtt, Word

RATE = 16_000
FRAME = 640
WINDOW = 8 * RATE


class CachingDecoder:
    """A decoder of a word in the first 0.4 s of every second; it counts what its cache holds."""

    def __init__(self):
        self.calls = []
        self.nbytes = 0
        self.resets = 0

    def __call__(
        self, audio, *, first_sample, remainder_samples, context, prompt, language, is_last
    ):
        """Return every word after the context whose first half is in the audio."""
        self.calls.append((first_sample, len(audio)))
        self.nbytes = len(audio)
        end = (first_sample + len(audio)) / RATE
        words = []
        for second in range(int(end) + 1):
            start, stop = second - first_sample / RATE, second + 0.4 - first_sample / RATE
            if (start + stop) / 2 >= 0 and second + 0.2 <= end:
                word = Word(start, min(stop, len(audio) / RATE), f" w{second}")
                words.append(AlignedWord(word=word, frames=(int(word.middle * RATE / FRAME),)))
        return AlignedHypothesis(words=tuple(words[len(context) :]), language="en")

    def reset(self):
        """Clear the cache."""
        self.resets += 1
        self.nbytes = 0


def over(decoder, **options):
    """Return a recognizer whose buffer is cut at whole windows."""
    return AlignAttRecognizer(
        decoder,
        policy=AlignAtt(border_frames=5, rewind_frames=50),
        frame_samples=FRAME,
        cache=decoder,
        **{"cut_samples": WINDOW, **options},
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.05, 6.0), min_size=1, max_size=20))
def test_cuts_fall_on_whole_windows_and_lose_no_word(seconds):
    """However audio is inserted, the decoder's windows are those of the utterance."""
    decoder = CachingDecoder()
    driver = StreamDriver(OnlineStream(lambda: over(decoder)))
    for length in seconds:
        driver.insert(np.zeros(round(length * RATE), dtype=np.float32))
        driver.drain()
    driver.finish()

    total = sum(round(length * RATE) for length in seconds) / RATE
    spoken = [f" w{second}" for second in range(int(total) + 1) if second + 0.2 <= total]
    assert "".join(spoken).strip() == "".join(token.text for token in driver.tokens).strip()
    assert all(first % WINDOW == 0 for first, _ in decoder.calls)
    assert max(length for _, length in decoder.calls) <= 20 * RATE


def test_the_cache_is_counted_and_reset_with_each_utterance():
    """state_bytes includes the cache, and returns to its first value when an utterance ends."""
    decoder = CachingDecoder()
    recognizer = over(decoder)
    resets, empty = decoder.resets, recognizer.state_bytes
    recognizer.feed(np.zeros(3 * RATE, dtype=np.float32))
    while recognizer.step(is_last=False) is not None:
        pass

    assert decoder.nbytes == 3 * RATE
    assert recognizer.state_bytes >= empty + 4 * 3 * RATE + decoder.nbytes

    recognizer.end_utterance(" w2")

    assert resets + 1 == decoder.resets
    assert empty == recognizer.state_bytes


class ScriptedDecoder:
    """A decoder of given words, as far as its audio goes; its cache is empty."""

    nbytes = 0

    def __init__(self, words):
        self.words = words
        self.calls = []

    def __call__(
        self, audio, *, first_sample, remainder_samples, context, prompt, language, is_last
    ):
        """Return the words after the context: text, times in the utterance, attended time."""
        self.calls.append((first_sample, len(audio)))
        first, end = first_sample / RATE, (first_sample + len(audio)) / RATE
        words = [
            AlignedWord(
                word=Word(start - first, min(stop, end) - first, text),
                frames=(int((min(attended, end - 0.01) - first) * RATE / FRAME),),
            )
            for text, start, stop, attended in self.words(first, end)
            if start < end
        ]
        return AlignedHypothesis(words=tuple(words[len(context) :]), language="en")

    def reset(self):
        """Clear nothing."""


def committed(recognizer, seconds):
    """Return the texts of the words committed in *seconds* of audio."""
    recognizer.feed(np.zeros(round(seconds * RATE), dtype=np.float32))
    words = []
    for is_last in (False, True):
        while (step := recognizer.step(is_last=is_last)) is not None:
            words += [word.text for word in step.committed]
    return words


@pytest.mark.parametrize(
    ("start", "stop", "attended"), [(8.0, 8.3, 8.2), (8.1, 8.38, 8.15), (8.0, 8.3, 8.25)]
)
def test_the_rest_of_a_long_word_after_a_cut_is_not_a_word(start, stop, attended):
    """Nearly half of a word may lie after a cut at whole windows and be decoded as a word."""

    def words(first, end):
        if first:
            return [(" teen", start, stop, attended)]
        return [(" seventeen", 7.5, 8.3, 8.16)]

    decoder = ScriptedDecoder(words)

    assert [" seventeen"] == committed(over(decoder), 14)
    assert 8 * RATE in {first for first, _ in decoder.calls}


def test_a_short_word_after_a_cut_is_kept_although_the_word_before_seemed_longer():
    """The end of a word is a guess, so a word attended to farther on is another word."""

    def words(first, end):
        # Until the cut the second word is attended to at the end, so that it is not final.
        up = (" up", 8.3, 8.6, 8.4 if first else end)
        return [up] if first else [(" seventeen", 7.2, 8.7, 8.2), up]

    decoder = ScriptedDecoder(words)

    assert [" seventeen", " up"] == committed(over(decoder), 14)
    assert 8 * RATE in {first for first, _ in decoder.calls}


@given(st.floats(0.2, 10.0), st.integers(1, 200), st.floats(8.0, 28.0))
@settings(max_examples=40, deadline=None)
def test_no_decoder_gets_more_than_its_bound(tick, frames, most):
    """A decoder gets at most max_seconds of audio, or twice a tick and a cut."""
    cut = frames * FRAME
    assume(2 * cut <= round(most * RATE) - round(tick * RATE))
    decoder = ScriptedDecoder(lambda first, end: [(" la", first + 1.0, end, end)])
    committed(over(decoder, cut_samples=cut, tick_seconds=tick, max_seconds=most), 60)

    bound = max(most * RATE, 2 * (cut + tick * RATE)) + 1
    assert max(length for _, length in decoder.calls) <= bound


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (1000, "whole frames of 640 samples, got 1000"),
        (0, "cuts at 1 to 216000 samples, half of 28 s less a tick of 1 s, got 0"),
        (14 * RATE, "got 224000"),
    ],
)
def test_cuts_that_could_not_be_made_are_refused(samples, message):
    """A cut lies at a whole frame, and half of the buffer has room for a forced cut."""
    with pytest.raises(ValueError, match=message):
        over(CachingDecoder(), cut_samples=samples)
