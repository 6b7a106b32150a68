"""Bare words combined with the text they come from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_whisper.openai_api.spelling import divide_text, with_leading_space

WORDS = st.text("abcdeéßжщแมไทย漢字かな0123", min_size=1, max_size=6)
GAPS = st.sampled_from([" ", ", ", ". ", " - ", "; ", "! ", "... ", " (", ' "', "\n"])
TIGHT = st.sampled_from(["", "、", "。", "·", "-"])


@given(st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=12), st.sampled_from(["", " ", " ¿"]))
def test_the_pieces_of_a_text_with_spaces_are_its_words(pairs, lead):
    """Each bare word gets the piece that contains it, and the pieces joined are the text."""
    words = [word for word, _ in pairs]
    text = lead + "".join(word + gap for word, gap in pairs)
    pieces = divide_text(words, text)

    assert text == "".join(piece.text for piece in pieces)
    assert list(range(len(words))) == [piece.word for piece in pieces]
    assert all(word in piece.text for word, piece in zip(words, pieces, strict=True))
    assert all(not piece.text[1:-1].strip() or piece.text.strip() for piece in pieces)


@given(st.lists(st.tuples(st.text("漢字かなไท", min_size=1, max_size=3), TIGHT), min_size=1))
def test_a_script_without_spaces_is_divided_where_its_words_are(pairs):
    """Only the letters determine where a word ends."""
    words = [word for word, _ in pairs]
    text = "".join(word + gap for word, gap in pairs)
    pieces = divide_text(words, text)

    assert [word + gap for word, gap in pairs] == [piece.text for piece in pieces]


@given(st.lists(WORDS, max_size=10), st.text("abß漢ไท, .-", max_size=40))
def test_words_that_do_not_fit_never_lose_or_repeat_text(words, text):
    """Whatever an endpoint responds, the pieces joined are the text, or there are none."""
    pieces = divide_text(words, text)
    positions = [piece.position for piece in pieces]

    assert "".join(piece.text for piece in pieces) in (text, "")
    assert sorted({piece.word for piece in pieces}) == [piece.word for piece in pieces]
    assert sorted(positions) == positions


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(0, 7), st.integers(0, 7))
def test_a_word_too_many_or_too_few_moves_no_other(words, dropped, added):
    """Words in both the list and the text keep their pieces."""
    text = "".join(f" {word}" for word in words)
    bare = [word for index, word in enumerate(words) if index != dropped % len(words)]
    bare.insert(added % (len(bare) + 1), "zzzz")
    pieces = divide_text(bare, text)

    assert "zzzz" not in "".join(piece.text for piece in pieces)
    assert "".join(piece.text for piece in pieces) in (text, "")


@pytest.mark.parametrize(
    ("words", "text", "pieces"),
    [
        (["Hello", "world"], "Hello, world.", ["Hello,", " world."]),
        (["It's", "5", "000", "euro"], "It's €5,000 euro!", ["It's", " €5,", "000", " euro!"]),
        (["he", "shouts", "no"], 'he shouts "no"', ["he", " shouts", ' "no"']),
        (["well", "known"], "well-known", ["well-", "known"]),
        (["你好", "世界"], "你好,世界。", ["你好,", "世界。"]),
        (["他说", "你好"], "他说「你好」", ["他说", "「你好」"]),
        (["สวัสดี", "ครับ"], "สวัสดีครับ", ["สวัสดี", "ครับ"]),
        ([" Hello,", " world."], " Hello, world.", [" Hello,", " world."]),
        (["STRASSE"], "Straße", ["Straße"]),
        (["one", "three"], "one two three", ["one two", " three"]),
        (["one", "two", "three"], "one three", ["one", " three"]),
        (["five"], "5", []),
        ([], "five", []),
        (["one"], "...", []),
    ],
)  # fmt: skip
def test_words_are_spelled_as_in_the_text(words, text, pieces):
    """A space precedes its word; punctuation follows its word unless it opens the next."""
    assert pieces == [piece.text for piece in divide_text(words, text)]


@pytest.mark.parametrize(
    ("stripped", "written"),
    [
        ("one", " one"),
        (" one ", " one"),
        ("¿qué?", " ¿qué?"),
        ("你好", "你好"),
        ("「你好」", "「你好」"),
        ("สวัสดี", "สวัสดี"),
        (", too", ", too"),
        ("", ""),
    ],
)
def test_a_stripped_text_gets_the_space_of_its_script(stripped, written):
    """A text after another text is joined as in Whisper's own output."""
    assert written == with_leading_space(stripped)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ab" * 10_000], "a" * 20_000),
        (["x"] * 999 + ["a"], "b" * 19_999 + "a"),
        (["a"] * 500, "a" + " b" * 9_999),
    ],
    ids=["repetitive", "the last letter", "the first letter"],
)
def test_long_texts_that_differ_take_no_time(words, text):
    """A matcher that compares all letters would take hours; every letter has a word or none has."""
    pieces = divide_text(words, text)

    assert pieces == () or text == "".join(piece.text for piece in pieces)
