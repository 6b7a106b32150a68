"""Words from tokens and their frames."""

from __future__ import annotations

import pytest

from wlk_nemotron.engine.words import EmittedToken, WordAssembler

PIECES = ("", " se", "ven", " ", "teen", ".", "今", "日", "。", " one")


def assembled(tokens, *, settled_at=None):
    """Return the text, start and end of each word of *tokens*, which are (id, frame)."""
    assembler, words = WordAssembler(PIECES), []
    for number, frame in tokens:
        words += assembler.push(EmittedToken(number, frame, 0.5))
    words += assembler.finish() if settled_at is None else assembler.settle(settled_at)
    return [(word.text, round(word.start, 2), round(word.end, 2)) for word in words]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([(1, 5), (2, 8), (9, 10)], [(" seven", 0.32, 0.64), (" one", 0.72, 0.8)]),
        ([(1, 5), (2, 6), (4, 12)], [(" seven", 0.32, 0.48), ("teen", 0.88, 0.96)]),
        ([(1, 0), (2, 1), (5, 2)], [(" seven.", 0.0, 0.16)]),
        ([(3, 5), (3, 9), (2, 11)], [(" ven", 0.64, 0.88)]),
        ([(3, 5), (2, 40)], [(" ven", 2.16, 3.2)]),
        ([(6, 5), (7, 6), (8, 7)], [("今", 0.32, 0.4), ("日。", 0.4, 0.56)]),
        ([(3, 5), (0, 6)], []),
    ],
    ids=["pieces", "late piece", "punctuation", "spaces", "early space", "no spaces", "nothing"],
)
def test_a_word_is_timed_by_the_frames_of_its_tokens(tokens, words):
    """A frame stands for the 80 ms that end at its time; a word includes its space."""
    assert assembled(tokens) == words


def test_a_word_is_final_once_no_token_of_it_is_expected():
    """Further tokens of a word follow within three frames."""
    tokens = [(1, 5), (2, 8)]

    assert assembled(tokens, settled_at=11) == []
    assert assembled(tokens, settled_at=12) == [(" seven", 0.32, 0.64)]


def test_a_growing_word_is_the_hypothesis():
    """A lone space is not a word; the probability of a word is the geometric mean of its tokens."""
    assembler = WordAssembler(PIECES)
    assembler.push(EmittedToken(3, 5, 1.0))
    assert assembler.pending is None
    assembler.push(EmittedToken(2, 8, 0.25))

    assert assembler.pending.text == " ven"
    assert assembler.pending.probability == pytest.approx(0.5)
