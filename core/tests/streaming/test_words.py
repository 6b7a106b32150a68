"""Joining text that was decoded in parts."""

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
        ("one (", "two", " two"),
        ("one ", "two", "two"),
        ("Ⅻ世", "one", "one"),
    ],
)
def test_texts_are_joined_as_their_script_wants(before, after, expected):
    """A space is added only if the script uses spaces and neither part brings one."""
    assert joined(before, after) == expected


@given(st.text(), st.text())
def test_joining_adds_at_most_one_space(before, after):
    """Joining keeps every letter and adds at most a space in front."""
    result = joined(before, after)

    assert result.strip() == after.strip()
    assert not needs_space(before, result)
