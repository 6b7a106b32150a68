"""Tokens are assembled into words, which become final."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from wlk_core.plugins import WorkCounters
from wlk_sherpa.engine.engine import DecodeAnswer, EngineStream, Token
from wlk_sherpa.engine.recognizer import SherpaRecognizer, StreamOptions
from wlk_sherpa.engine.words import group, word_of

CHUNK = 1600  # samples of the scripted model: 0.1 s


def tokens_of(*texts):
    """Return tokens a tenth of a second apart."""
    return [Token(text, index / 10, -0.5) for index, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "is_marked", "expected"),
    [
        ([" he", "llo", " wor", "ld", "."], False, [" hello", " world."]),
        (["你", "好", " he", "llo", "吗"], False, ["你", "好", " hello", "吗"]),
        (["hello@@", "ing", "world", "你", "好"], True, [" helloing", " world", "你", "好"]),
        ([" <0xC3>", "<0xA9>", "t", "é"], False, [" été"]),
        ([" a", "<0xE4>", "<0xB8>"], False, [" a"]),
        ([" ", "ze", "ro", " ", " one"], False, [" zero", " one"]),
    ],
    ids=["pieces", "characters", "Paraformer", "bytes", "half a character", "spaces"],
)
def test_tokens_form_words(texts, is_marked, expected):
    """Words carry their own spaces, however the vocabulary marks words."""
    words = group(tokens_of(*texts), is_marked=is_marked)

    assert [
        word_of(word, origin=0.0, frame_seconds=0.04, is_marked=is_marked).text for word in words
    ] == expected


def test_a_word_has_the_times_and_scores_of_its_tokens():
    """A word lasts from its first token to one frame after its last."""
    word = word_of(tokens_of(" ", " ", "ze", "ro"), origin=2, frame_seconds=0.04, is_marked=False)

    assert word.text == " zero"
    assert (word.start, word.end) == pytest.approx((2.1, 2.34))  # noise caused the first space
    assert word.probability == pytest.approx(np.exp(-0.5))


def recognizer_of(results, requests=None, **options):
    """Return a recognizer whose model returns `results[n]` as the tokens after chunk n."""

    def decode(request):
        if requests is not None:
            requests.append(attrs.evolve(request, history=()))
        first = len(request.history)
        numbers = range(first, first + len(request.chunks))
        answers = tuple(tuple(results[min(number, len(results) - 1)]) for number in numbers)
        return DecodeAnswer(results=answers, stream=EngineStream(None), work=WorkCounters())

    values = {"chunk_samples": CHUNK, "lookahead_samples": 0, "frame_seconds": 0.1}
    return SherpaRecognizer(decode, StreamOptions(**values, word_gap=0.25, **options))


def committed(results, **options):
    """Return the text committed after each chunk of 0.1 s, and at the end."""
    recognizer, texts = recognizer_of(results, **options), []
    for _ in results:
        recognizer.feed(np.zeros(CHUNK, dtype=np.float32))
        step = recognizer.step(is_last=False)
        texts.append("".join(word.text for word in step.committed))
    while (step := recognizer.step(is_last=True)) is not None:
        texts.append("".join(word.text for word in step.committed))
    return texts


def test_a_word_is_final_when_the_next_begins_or_after_a_gap():
    """A token after the gap continues the word without a space."""
    ze, ro, one, s = (
        Token(" ze", 0.0, None),
        Token("ro", 0.1, None),
        Token(" one", 0.2, None),
        Token("s", 0.7, None),
    )
    results = [[ze], [ze, ro], [ze, ro, one], *[[ze, ro, one]] * 4, [ze, ro, one, s]]

    assert committed(results) == ["", "", " zero", "", " one", "", "", "", "s"]


def test_a_word_that_beam_search_may_revise_waits_for_the_gap():
    """Until then it can change, and committed words are not committed again."""
    for_, four, teen, five = (
        Token(" for", 0.0, None),
        Token(" four", 0.0, None),
        Token("teen", 0.1, None),
        Token(" five", 0.4, None),
    )
    results = [[for_], [for_], [four, teen], [four, teen], [four, teen, five], [four, five]]

    assert committed(results, is_revised=True) == ["", "", "", " fourteen", "", "", " five"]


def test_a_segment_ends_in_a_pause_and_the_next_begins_inside_it():
    """It ends at a pause of 0.5 s after 20 s, or at 30 s without a pause."""
    requests = []
    recognizer = recognizer_of([[]] * 199 + [[Token(" one", 19.9, None)]], requests)
    for _ in range(206):
        recognizer.feed(np.zeros(CHUNK, dtype=np.float32))
        recognizer.step(is_last=False)

    assert [n for n, request in enumerate(requests) if request.stream is None] == [0, 205]
    assert len(requests[205].chunks) == 3  # the last 0.25 s again, and the newest chunk
    assert recognizer.state_bytes == 4 * (206 * CHUNK - round(20.25 * 16_000))
