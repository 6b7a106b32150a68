"""AlignAttRecognizer: which words of a decoder are new, which are final, and where it cuts."""

from __future__ import annotations

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import (
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    OnlineStream,
)
from wlk_core.streaming import Word

RATE = 16_000
FRAME = 320
POLICY = AlignAtt(border_frames=8, rewind_frames=50)
WINDOW = 8 * RATE  # a decoder with a cache is cut at multiples of this


def word(start, end, text, *attended):
    """Return a word whose tokens attended to the given times, by default to its middle."""
    return Word(start, end, text), attended or [(start + end) / 2]


class Decoder:
    """
    A decoder whose cache has a byte for each sample of audio; it records its calls.

    *words* are those from one time to another, the context included, with times in the utterance;
    what is beyond the audio is left out.
    """

    def __init__(self, words, *, languages=()):
        self.words, self.languages = words, iter(languages)
        self.calls, self.forced = [], []
        self.nbytes = self.resets = 0

    def __call__(self, audio, *, first_sample, context, prompt, language, **_):
        """Return the words after the context."""
        self.calls.append((first_sample, len(audio), len(context), prompt))
        self.forced.append(language)
        self.nbytes = len(audio)
        first, end = first_sample / RATE, (first_sample + len(audio)) / RATE
        words = [
            AlignedWord(
                spoken.start - first,
                min(spoken.end, end) - first,
                spoken.text,
                frames=tuple(int((min(t, end - 0.01) - first) * RATE / FRAME) for t in attended),
            )
            for spoken, attended in self.words(first, end)
            if spoken.start < end
        ][len(context) :]
        return AlignedHypothesis(
            words=tuple(words), language=language or next(self.languages, "en")
        )

    def reset(self):
        """Clear the cache."""
        self.resets, self.nbytes = self.resets + 1, 0


def every_second(first, end):
    """Return a word in the first 0.4 s of every second, recognised by its first half."""
    seconds = [second for second in range(int(end) + 1) if second + 0.2 <= end]
    return [word(s, s + 0.4, f" w{s}") for s in seconds if s + 0.2 >= first]


def over(decoder, **options):
    """Return a recognizer on *decoder* with a short border."""
    return AlignAttRecognizer(decoder, policy=POLICY, frame_samples=FRAME, **options)


def cached(decoder, **options):
    """Return a recognizer whose buffer is cut at whole windows."""
    return over(decoder, cache=decoder, **{"cut_samples": WINDOW, **options})


def run(recognizer, seconds, *, chunk=RATE):
    """Feed *seconds* of silence in chunks and return the words of every step."""
    steps = []
    audio = np.zeros(round(seconds * RATE), np.float32)
    for first in range(0, len(audio), chunk):
        recognizer.feed(audio[first : first + chunk])
        while (step := recognizer.step(is_last=False)) is not None:
            steps.append(list(step.committed))
    while (step := recognizer.step(is_last=True)) is not None:
        steps.append(list(step.committed))
    return steps


def texts(steps):
    """Return the text of each word, step by step."""
    return [[word.text for word in words] for words in steps]


def test_the_decoder_begins_with_the_committed_words_whose_audio_it_gets():
    """Every committed word is either forced or, once its audio is dropped, in the prompt."""
    decoder = Decoder(every_second)
    run(over(decoder, prompt="names: Ann", buffer_seconds=5.0), 20)

    for first_sample, samples, forced, prompt in decoder.calls:
        prompted = prompt.split()
        assert prompted[:2] == ["names:", "Ann"]
        assert sum(second + 0.2 < first_sample / RATE for second in range(20)) == len(prompted) - 2
        assert forced <= (first_sample + samples) / RATE - (len(prompted) - 2)


def test_a_word_is_final_only_with_its_last_token():
    """A word with one token that attends to the border waits, and so do the words after it."""
    words = [
        word(0.1, 0.3, " one", 0.1, 0.2),
        word(0.5, 0.9, " two", 0.5, 0.9),
        word(0.6, 0.7, ","),
    ]
    recognizer = over(Decoder(lambda *_: words))
    recognizer.feed(np.zeros(RATE, np.float32))
    step = recognizer.step(is_last=False)

    assert [word.text for word in step.committed] == [" one"]
    assert [word.text for word in recognizer.hypothesis] == [" two", ","]


def test_a_committed_word_that_is_repeated_without_audio_is_not_new():
    """Attention that jumps back repeats no word; a word repeated in the audio is new."""

    def words(_first, end):
        if end == 1.0:
            return [word(0.1, 0.4, " seven"), word(0.9, 1.0, " s")]
        again = word(0.4, 0.4, " seven", 0.25), word(1.0, 1.4, " seven")
        return [word(0.1, 0.4, " seven"), *again]  # the first is the context

    steps = run(over(Decoder(words)), 2)

    assert [word.start for words in steps for word in words] == [0.1, 1.0]


def test_a_last_word_waits_for_the_next_one_or_a_second_without_words():
    """More audio may extend the last word, unless a second without words has followed it."""
    words = [word(0.1, 0.4, " wind"), word(2.1, 2.4, " of")]

    assert texts(run(over(Decoder(lambda *_: words)), 4)) == [[], [" wind"], [], [" of"]]


def test_the_first_words_wait_for_a_second_hypothesis_where_they_are_confirmed():
    """Text that a model invents for the first second is never forced on what follows."""

    def words(_first, end):
        if end <= 1.0:
            return [word(0.1, 0.4, " Thank"), word(0.4, 0.6, " you.")]
        return [word(0.1, 0.4, " Mister"), word(0.4, 0.6, " Quilter"), word(1.9, 2.0, " is")]

    first, second = (
        texts(run(over(Decoder(words), confirms_start=confirms), 4)) for confirms in (False, True)
    )

    assert first[0][0] == " Thank"
    assert second[:3] == [[], [], [" Mister", " Quilter", " is"]]


def test_a_first_word_of_a_single_frame_is_new():
    """A word in the first frame of an utterance is not taken for a repetition."""
    decoder = Decoder(lambda *_: [word(0.0, 0.02, " seven", 0.0)])

    assert texts(run(over(decoder), 0.032)) == [[" seven"]]


def test_the_first_committed_word_fixes_the_language():
    """A language detected before the first committed word may change; then it is forced."""
    words = [word(1.1, 1.4, " eins"), word(1.6, 1.9, " zwei")]
    decoder = Decoder(lambda _, end: words if end >= 2 else [], languages=["fr", "de", "en"])
    recognizer = over(decoder)
    run(recognizer, 4)

    assert decoder.forced == [None, None, "de", "de"]
    assert recognizer.language == "de"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.05, 6.0), min_size=1, max_size=20))
def test_cuts_fall_on_whole_windows_and_lose_no_word(seconds):
    """However audio is inserted, a decoder with a cache gets windows on the utterance's grid."""
    decoder = Decoder(every_second)
    driver = StreamDriver(OnlineStream(lambda: cached(decoder)))
    for length in seconds:
        driver.insert(np.zeros(round(length * RATE), dtype=np.float32))
        driver.drain()
    driver.finish()

    total = sum(round(length * RATE) for length in seconds) / RATE
    assert driver.text == "".join(spoken.text for spoken, _ in every_second(0, total)).strip()
    assert all(first % WINDOW == 0 for first, *_ in decoder.calls)
    assert max(length for _, length, *_ in decoder.calls) <= 20 * RATE


def test_the_cache_is_counted_and_reset_with_each_utterance():
    """state_bytes includes the cache, and returns to its initial value when an utterance ends."""
    decoder = Decoder(every_second)
    recognizer = cached(decoder)
    resets, empty = decoder.resets, recognizer.state_bytes
    recognizer.feed(np.zeros(3 * RATE, dtype=np.float32))
    while recognizer.step(is_last=False) is not None:
        pass

    assert decoder.nbytes == 3 * RATE
    assert recognizer.state_bytes >= empty + 4 * 3 * RATE + decoder.nbytes

    recognizer.start_utterance(" w2")

    assert decoder.resets == resets + 1
    assert recognizer.state_bytes == empty


@pytest.mark.parametrize(
    ("start", "stop", "attended"), [(8.0, 8.3, 8.2), (8.1, 8.38, 8.15), (8.0, 8.3, 8.25)]
)
def test_the_rest_of_a_long_word_after_a_cut_is_not_a_word(start, stop, attended):
    """Nearly half of a word may lie after a cut at a whole window and be decoded as a word."""

    def words(first, _end):
        whole = word(7.5, 8.3, " seventeen", 8.16)
        return [word(start, stop, " teen", attended)] if first else [whole]

    decoder = Decoder(words)

    assert list(chain(*texts(run(cached(decoder), 14)))) == [" seventeen"]
    assert 8 * RATE in {first for first, *_ in decoder.calls}


def test_a_short_word_after_a_cut_is_kept_although_the_word_before_seemed_longer():
    """The end of a word is a guess, so attention farther on means another word."""

    def words(first, end):
        # Until the cut the second word attends to the end of the audio, so it is not final.
        up = word(8.3, 8.6, " up", 8.4 if first else end)
        return [up] if first else [word(7.2, 8.7, " seventeen", 8.2), up]

    decoder = Decoder(words)

    assert list(chain(*texts(run(cached(decoder), 14)))) == [" seventeen", " up"]
    assert 8 * RATE in {first for first, *_ in decoder.calls}


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (1000, "whole frames of 320 samples, got 1000"),
        (0, "cuts at 1 to 216000 samples, half of 28 s less a tick of 1 s, got 0"),
        (14 * RATE, "got 224000"),
    ],
)
def test_cuts_that_could_not_be_made_are_refused(samples, message):
    """Cuts lie at whole frames, and half of the buffer must have room for a forced cut."""
    with pytest.raises(ValueError, match=message):
        over(Decoder(every_second), cut_samples=samples)
