"""JSON within limits."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from wlk_whisper.openai_api.bounded_json import MAX_DEPTH, JSONLimitError, parse_json

SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS | NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def depth(value):
    """Return how many lists and objects a value has inside each other."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@settings(max_examples=40)
@given(value=VALUES, is_ascii=st.booleans())
def test_a_value_within_the_limits_is_read(value, is_ascii):
    """Brackets and quotes in a text are text."""
    text = json.dumps(value, ensure_ascii=is_ascii)
    if depth(value) <= MAX_DEPTH:
        assert value == parse_json(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_depth_has_a_limit(opening, closing):
    """The limit is a number of its own, not that of Python's stack."""
    parse_json(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(JSONLimitError, match="nested deeper than 16"):
            parse_json(opening * levels + "1" + closing * levels)


@pytest.mark.parametrize("number", ["9" * 41, "9" * 5000, "-" + "1" * 41, "0." + "1" * 41])
def test_a_number_has_a_limit(number):
    """A long integer would be converted in the square of its length."""
    with pytest.raises(JSONLimitError, match="a number of"):
        parse_json(f'{{"text": {number}}}')


@given(text=st.text('[]{}",:\\ax1-.eE \n', max_size=60))
def test_any_text_is_a_value_or_a_value_error(text):
    """Nothing but ValueError is raised, and what json accepts is accepted."""
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=" "):
            parse_json(text)
    else:
        if depth(expected) <= MAX_DEPTH:
            assert expected == parse_json(text)
