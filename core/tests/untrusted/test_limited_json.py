"""JSON from outside, parsed within limits."""

from __future__ import annotations

import json

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from wlk_core.untrusted import JSONLimitError, JSONLimits, parse_limited_json

MAX_DEPTH = 16
LENIENT = JSONLimits(
    max_bytes=2**20, max_values=200_000, max_depth=MAX_DEPTH, max_digits=40, is_strict=False
)
STRICT = attrs.evolve(LENIENT, is_strict=True)

SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS | NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def parse(text, limits=LENIENT):
    """Parse a text of Python."""
    return parse_limited_json(text.encode(), limits)


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
        assert value == parse(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_depth_has_a_limit(opening, closing):
    """The limit is a number of its own, not that of Python's stack."""
    parse(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(JSONLimitError, match="nested deeper than 16"):
            parse(opening * levels + "1" + closing * levels)


@pytest.mark.parametrize("number", ["9" * 41, "9" * 5000, "-" + "1" * 41, "0." + "1" * 41])
def test_a_number_has_a_limit(number):
    """A long integer would be converted in the square of its length."""
    with pytest.raises(JSONLimitError, match="a number of"):
        parse(f'{{"text": {number}}}')


@given(text=st.text('[]{}",:\\ax1-.eE \n', max_size=60))
def test_any_text_is_a_value_or_a_value_error(text):
    """Nothing but ValueError is raised, and what json accepts is accepted."""
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=" "):
            parse(text)
    else:
        if depth(expected) <= MAX_DEPTH:
            assert expected == parse(text)


@pytest.mark.parametrize("end", ["", ", 1", '"'], ids=["cut", "more", "cut text"])
def test_what_is_too_deep_is_beyond_a_limit_however_it_ends(end):
    """A deep text that is cut off is no damage that another attempt would mend."""
    with pytest.raises(JSONLimitError, match="nested deeper than 16"):
        parse('{"a": ' + "[" * MAX_DEPTH + end)


@given(text=st.text('[]{},\\"\nu', max_size=30))
def test_brackets_in_a_text_are_no_depth_and_commas_no_values(text):
    """Escapes of quotes and of backslashes do not end a text."""
    limits = attrs.evolve(STRICT, max_depth=1, max_values=2)

    assert [text, text] == parse(json.dumps([text, text]), limits)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" + "0," * 200_000 + "0]", "more than 200,000 values"),
        ('"' + "a" * 2**20 + '"', "more than 1 MiB"),
    ],
    ids=["values", "bytes"],
)
@pytest.mark.parametrize("limits", [STRICT, LENIENT], ids=["strict", "lenient"])
def test_a_text_has_a_size(text, message, limits):
    """Values are counted before any of them is built."""
    with pytest.raises(JSONLimitError, match=message):
        parse(text, limits)


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}, "the key 'a' comes twice"),
        ("[Infinity]", [float("inf")], "Infinity is no number"),
        ("[1e999]", [float("inf")], "'1e999' is too large"),
        (f"[{10**21}]", [10**21], "'1000000000000000000000' is too large"),
        (r'"\ud800"', "\ud800", "half of a surrogate pair"),
    ],
)
def test_what_readers_differ_about_is_refused_where_another_one_reads_it(text, value, message):
    """A text that only this program reads may hold it: the values are checked where they count."""
    assert value == parse(text)
    with pytest.raises(ValueError, match=message):
        parse(text, STRICT)
