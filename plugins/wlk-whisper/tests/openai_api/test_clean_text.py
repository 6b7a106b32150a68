"""Text without control characters."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_whisper.openai_api.clean_text import clean


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("one\n two\t\x0bthree", "one two three"),
        ("\x1b[2J\x1b]0;title\x07one", "[2J]0;titleone"),
        ("o\x00n\x9be", "one"),
        ("a \x00 b", "a b"),
        ("\ud83done\ufffd", "one"),
        ("\N{ZERO WIDTH JOINER}é 字", "\N{ZERO WIDTH JOINER}é 字"),
    ],
    ids=["white space", "escapes", "NUL", "between spaces", "surrogates", "other text"],
)
def test_control_characters_are_removed_and_white_space_is_a_space(text, cleaned):
    """What remains of an escape sequence is text."""
    assert cleaned == clean(text)


@given(text=st.text(st.characters()))
def test_cleaned_text_can_be_written_anywhere(text):
    """It is UTF-8 without control characters, and cleaning it again changes nothing."""
    cleaned = clean(text)

    cleaned.encode()
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in cleaned)
    assert cleaned == clean(cleaned)
