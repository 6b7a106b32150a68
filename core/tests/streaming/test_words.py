"""Joining texts that were decoded apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import joined, needs_space


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("one", "two", " two"),
        ("one", " two", " two"),
        ("one", ", two", ", two"),
        ("你好", "世界", "世界"),
        ("こんにちは", "世界", "世界"),
        ("สวัสดี", "ครับ", "ครับ"),
        ("one", "世界", "世界"),
        ("", " one", "one"),
        ("said (", "so", " so"),
        ("one ", "two", "two"),
        ("Ⅻ世", "one", "one"),
    ],
    ids=[
        "latin",
        "own space",
        "comma",
        "zh",
        "ja",
        "th",
        "mixed",
        "first",
        "bracket",
        "space before",
        "script before",
    ],
)
def test_texts_are_joined_as_their_script_wants(before, after, expected):
    """A space is put only where the script writes one and none is there yet."""
    assert expected == joined(before, after)


@given(st.text(), st.text())
def test_joining_adds_at_most_one_space(before, after):
    """No letter is ever lost or invented."""
    result = joined(before, after)

    assert result.strip() == after.strip()
    assert not needs_space(before, result)
