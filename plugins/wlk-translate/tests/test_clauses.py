"""Punctuation, pauses, speakers, languages and length end a clause."""
# ruff: noqa: RUF001 -- stops and letters of other scripts

from __future__ import annotations

import attrs
import pytest

from wlk_core.plugins import ASRToken
from wlk_translate.engine.clauses import ClauseSplitter


def tokens_of(text, *, start=0.0):
    """Return a token for each word, or for each character if there are no spaces, 0.4 s apart."""
    words = [f" {word}" for word in text.split(" ")] if " " in text else list(text)
    return [ASRToken(start + 0.4 * i, start + 0.4 * i + 0.3, word) for i, word in enumerate(words)]


def clauses_of(tokens):
    """Return the clauses of an utterance."""
    splitter = ClauseSplitter()
    found = [clause for token in tokens for clause in splitter.push(token)]
    return found + list(splitter.flush())


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("We are late. Run!", ["We are late.", "Run!"]),
        ("When I have time, I read a book.", ["When I have time, I read a book."]),
        (
            "When I finally have some time, I read.",
            ["When I finally have some time,", "I read."],
        ),
        ('He said: "Go." Then he left.', ['He said: "Go."', "Then he left."]),
        ("It costs 3.50 dollars. Yes.", ["It costs 3.50 dollars.", "Yes."]),
        ("It was in 2024. Then it ended.", ["It was in 2024.", "Then it ended."]),
        ("The U.S. is large. It is old.", ["The U.S. is large.", "It is old."]),
        (
            "Dr. Lee met Mr. Poe at 3 p.m. in St. Louis. Yes.",
            ["Dr. Lee met Mr. Poe at 3 p.m. in St. Louis.", "Yes."],
        ),
        ("Am 4. Juli kam Prof. Lee. Er blieb.", ["Am 4. Juli kam Prof. Lee.", "Er blieb."]),
        ("وہ آیا۔ کیوں؟ بس۔", ["وہ آیا۔", "کیوں؟", "بس۔"]),
        ("Նա եկավ։ այո։", ["Նա եկավ։", "այո։"]),
        ("ሄደ። መጣ።", ["ሄደ።", "መጣ።"]),
        ("Τι κάνεις; Καλά.", ["Τι κάνεις;", "Καλά."]),
        ("... and so on", ["... and so on"]),
        ("今天天气很好。我们去公园吧", ["今天天气很好。", "我们去公园吧"]),
        ("如果你明天有时间的话，请给我打电话。", ["如果你明天有时间的话，", "请给我打电话。"]),
    ],
)
def test_punctuation_ends_a_clause(text, clauses):
    """A sentence can have any length; a clause that ends at a comma has 20 columns or more."""
    assert [clause.text for clause in clauses_of(tokens_of(text))] == clauses


def test_a_clause_is_complete_with_its_last_token():
    """It does not wait for the next word, except after a number or an abbreviation."""
    splitter = ClauseSplitter()
    done = [
        [clause.text for clause in splitter.push(token)] for token in tokens_of("Go. I see 3. The")
    ]

    assert done == [["Go."], [], [], [], ["I see 3."]]


@pytest.mark.parametrize(
    ("field", "value"), [("speaker", "anna"), ("detected_language", "fr"), ("start", 9.0)]
)
def test_another_speaker_language_or_a_pause_ends_a_clause(field, value):
    """They do so even in the middle of a sentence."""
    first, second = tokens_of("good morning")
    other = attrs.evolve(second, **{"end": 9.5, field: value})
    clauses = clauses_of([first, other])

    assert [clause.text for clause in clauses] == ["good", "morning"]
    assert clauses[0].ends_sentence == (field != "start")


def test_text_without_punctuation_is_divided():
    """Every token is part of exactly one clause, which has its times."""
    tokens = tokens_of(" ".join(["nine"] * 200))
    clauses = clauses_of(tokens)

    assert [token for clause in clauses for token in clause.tokens] == tokens
    assert max(len(clause.text) for clause in clauses) < 180
    assert not any(clause.ends_sentence for clause in clauses[:-1])
    assert (clauses[1].tokens[0].start, clauses[1].tokens[-1].end) == (
        clauses[1].start,
        clauses[1].end,
    )
