"""AlignAttRecognizer: which words of a decoder are new, and which of them are final."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core.plugins import AlignAttRecognizer, AlignedHypothesis, AlignedWord
from wlk_core.streaming import AlignAtt, Word

RATE = 16_000
FRAME = 320
POLICY = AlignAtt(border_frames=8, rewind_frames=50)


def aligned(start, end, text, frames=None):
    """Return a word whose token attended to its middle, or to *frames*."""
    middle = int((start + end) / 2 * RATE / FRAME)
    return AlignedWord(word=Word(start, end, text), frames=tuple(frames or [middle]))


def over(decode, **options):
    """Return a recognizer with a short border over *decode*."""
    return AlignAttRecognizer(decode, policy=POLICY, frame_samples=FRAME, **options)


def run(recognizer, audio, *, chunk=RATE):
    """Feed *audio* in chunks and return every step."""
    steps = []
    for first in range(0, len(audio), chunk):
        recognizer.feed(audio[first : first + chunk])
        while (step := recognizer.step(is_last=False)) is not None:
            steps.append(step)
    while (step := recognizer.step(is_last=True)) is not None:
        steps.append(step)
    return steps


class Speech:
    """A decoder that recognises a word in the first 0.4 s of every second of the utterance."""

    def __init__(self):
        self.calls = []

    def __call__(
        self, audio, *, first_sample, remainder_samples, context, prompt, language, is_last
    ):
        """Return every word after the context whose first half is in the audio."""
        self.calls.append((first_sample, len(audio), len(context), prompt))
        end = (first_sample + len(audio)) / RATE
        words = []
        for second in range(int(end) + 1):
            start, stop = second - first_sample / RATE, second + 0.4 - first_sample / RATE
            if (start + stop) / 2 >= 0 and second + 0.2 <= end:
                words.append(aligned(start, min(stop, len(audio) / RATE), f" w{second}"))
        return AlignedHypothesis(words=tuple(words[len(context) :]), language="en")


@pytest.mark.parametrize("chunk", [800, RATE, 60 * RATE])
def test_every_word_is_committed_once_however_the_buffer_is_cut(chunk):
    """Forty words in forty seconds are committed once each, in order, at their times."""
    decoder = Speech()
    steps = run(over(decoder, buffer_seconds=5.0), np.zeros(40 * RATE, np.float32), chunk=chunk)
    words = [word for step in steps for word in step.committed]

    assert [f" w{second}" for second in range(40)] == [word.text for word in words]
    assert [word.start for word in words] == pytest.approx(list(range(40)))
    assert max(samples for _, samples, _, _ in decoder.calls) <= 6.1 * RATE


def test_the_decoder_begins_with_the_committed_words_whose_audio_it_gets():
    """Every committed word is either forced or, its audio gone, in the prompt; never both."""
    decoder = Speech()
    run(over(decoder, prompt="names: Ann", buffer_seconds=5.0), np.zeros(20 * RATE, np.float32))

    for first_sample, samples, forced, prompt in decoder.calls:
        prompted = prompt.split()
        assert prompted[:2] == ["names:", "Ann"]
        assert len(prompted) - 2 == sum(second + 0.2 < first_sample / RATE for second in range(20))
        assert forced <= (first_sample + samples) / RATE - (len(prompted) - 2)


def test_a_word_is_final_only_with_its_last_token():
    """A word of which one token attends to the border waits, and so does what follows it."""

    def decode(audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        words = (
            aligned(0.1, 0.3, " one", [5, 10]),
            aligned(0.5, 0.9, " two", [25, 45]),
            aligned(0.6, 0.7, ",", [30]),
        )
        return AlignedHypothesis(words=words[len(context) :])

    recognizer = over(decode)
    recognizer.feed(np.zeros(RATE, np.float32))
    step = recognizer.step(is_last=False)

    assert [" one"] == [word.text for word in step.committed]
    assert [" two", ","] == [word.text for word in recognizer.hypothesis]


def test_a_committed_word_that_is_repeated_without_audio_is_not_new():
    """Attention that goes back over committed audio repeats no word; audio that repeats does."""
    ticks = iter(range(10))

    def decode(audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        hypotheses = [
            [aligned(0.1, 0.4, " seven"), aligned(0.9, 1.0, " s")],
            [aligned(0.4, 0.4, " seven", [12]), aligned(1.0, 1.4, " seven")],
        ]
        return AlignedHypothesis(words=tuple(hypotheses[min(next(ticks), 1)]))

    steps = run(over(decode), np.zeros(2 * RATE, np.float32))
    words = [word for step in steps for word in step.committed]

    assert [0.1, 1.0] == [word.start for word in words]


def test_a_last_word_waits_for_the_next_one_or_a_second_without_words():
    """More audio may add a token to it, unless a second without words has followed."""

    def decode(audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        words = (aligned(0.1, 0.4, " wind"), aligned(2.1, 2.4, " of"))[
            : 1 + len(audio) // (3 * RATE)
        ]
        return AlignedHypothesis(words=words[len(context) :])

    steps = run(over(decode), np.zeros(4 * RATE, np.float32))

    assert [[], [" wind"], [], [" of"]] == [[word.text for word in s.committed] for s in steps]


def test_the_first_words_wait_for_a_second_hypothesis_where_they_are_confirmed():
    """What a model invents for the first second is never forced on the text that follows."""

    def decode(audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        invented = aligned(0.1, 0.4, " Thank"), aligned(0.4, 0.6, " you.")
        spoken = aligned(0.1, 0.4, " Mister"), aligned(0.4, 0.6, " Quilter"), aligned(1.9, 2, " is")
        words = invented if len(audio) <= RATE else spoken[: 1 + len(audio) // RATE]
        return AlignedHypothesis(words=words[len(context) :])

    first, second = (
        run(over(decode, confirms_start=confirms), np.zeros(4 * RATE, np.float32))
        for confirms in (False, True)
    )

    assert [" Thank"] == [word.text for word in first[0].committed][:1]
    assert [[], [], [" Mister", " Quilter", " is"]] == [
        [w.text for w in s.committed] for s in second[:3]
    ]


def test_a_first_word_of_a_single_frame_is_new():
    """A word that a cut left in the first frame of an utterance repeats no other one."""

    def decode(audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        return AlignedHypothesis(words=(aligned(0.0, 0.02, " seven", [0]),)[len(context) :])

    steps = run(over(decode), np.zeros(512, np.float32))

    assert [" seven"] == [word.text for step in steps for word in step.committed]


def test_the_first_committed_word_fixes_the_language():
    """A language detected before the first committed word may change; then it is forced."""
    detected, forced = iter(["fr", "de", "en"]), []

    def decode(audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        forced.append(language)
        words = (aligned(1.1, 1.4, " eins"), aligned(1.6, 1.9, " zwei"))[len(context) :]
        words = words if len(audio) >= 2 * RATE else ()
        return AlignedHypothesis(words=words, language=language or next(detected))

    recognizer = over(decode)
    run(recognizer, np.zeros(4 * RATE, np.float32))

    assert [None, None, "de", "de"] == forced
    assert recognizer.language == "de"
