from __future__ import annotations

from mixing import Word
import pytest
from scoring import RecognisedWord, Score, align


@pytest.mark.parametrize(
    ("hypothesis", "errors"),
    [
        ("one two three", 0),
        ("one three", 1),
        ("one two two three", 1),
        ("one six three", 1),
        ("", 3),
    ],
    ids=["right", "deletion", "insertion", "substitution", "nothing"],
)
def test_errors_are_counted(hypothesis: str, errors: int) -> None:
    """Each substitution, insertion and deletion is one error."""
    assert errors == align(["one", "two", "three"], hypothesis.split())[1]


def test_times_are_measured_on_right_words_only() -> None:
    """A wrong word is an error, its times are no evidence."""
    words = [Word(digit=1, start=0.5, end=0.9), Word(digit=2, start=1.0, end=1.4)]
    hypothesis = [
        RecognisedWord(text="six", start=0.0, end=0.5),
        RecognisedWord(text="two", start=1.1, end=1.3),
    ]
    score = Score()

    score.add(words, hypothesis)

    assert score.error_rate == 50.0
    assert score.first_starts == []
    assert score.starts == pytest.approx([0.1])
    assert score.ends == pytest.approx([-0.1])
