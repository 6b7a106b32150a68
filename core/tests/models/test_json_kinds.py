"""A schema allows what it declares and names the first value that it does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.models.json_kinds import AnyOf, Flag, ListOf, Number, Table, TableOf, Text, Whole

ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.none())


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Whole(1, 4), 0, "expected a whole number from 1 to 4, got 0"),
        (Whole(1, 4), 1.0, "expected a whole number from 1 to 4, got 1.0"),
        (Whole(), True, "expected a whole number from 0 to 2147483647, got True"),
        (Whole(), None, "expected a whole number from 0 to 2147483647, got null"),
        (Number(0, 1.5), 2, "expected a number from 0 to 1.5, got 2"),
        (Number(0, 1), float("nan"), "expected a number from 0 to 1, got nan"),
        (Text(), 3, "expected text, got 3"),
        (Text("a", "b"), "c", "expected one of a, b, got 'c'"),
        (Flag(), 1, "expected true or false, got 1"),
        (ListOf(Text()), "ab", "expected a list of text, got 'ab'"),
        (ListOf(Whole(), length=2), [1], "expected a list of 2 values, each a whole"),
        (ListOf(Text(), minimum_length=1, label="some codes"), [], "expected some codes, got []"),
        (AnyOf((Whole(), ListOf(Whole())), label="ids"), "x", "expected ids, got 'x'"),
        (AnyOf((Flag(), Text())), 1, "expected true or false or text, got 1"),
        (TableOf(Text()), {"a": "b", "c": 1}, "expected c as text, got 1"),
        (TableOf(Text()), [], "expected a table, got []"),
        (Table({"a": Text()}, required=("a",)), {}, "expected a as text, got null"),
        (Table({"a": Text()}, refuses_null=True), {"a": None}, "expected a as text, got null"),
        (Table({"a": Table({"b": Flag()})}), {"a": {"b": 0}}, "expected a.b as true or false"),
        (ListOf(Table({"a": Flag()})), [{}, {"a": 2}], "expected [1].a as true or false, got 2"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_named(kind, value, message):
    """The message gives the path, the kind and the value."""
    assert str(kind.fault(value)).startswith(message)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Whole(-1, 1), -1),
        (Number(0, 1), 1),
        (Text("a"), "a"),
        (Flag(), False),
        (ListOf(ListOf(Whole(), length=2)), [[1, 2], [3, 4]]),
        (AnyOf((Flag(), Text())), "x"),
        (TableOf(Whole()), {"x": 1}),
        (Table({"a": Text()}), {"a": None, "b": object}),
        (Table({"a": Text()}), {}),
        (Table({"a": Text()}, refuses_null=True), {}),
    ],
)
def test_a_value_of_the_kind_has_no_fault(kind, value):
    """Keys that a table does not declare may hold anything, and null is as good as no key."""
    assert kind.fault(value) is None


def test_a_fault_is_one_short_line():
    """Values and keys of strangers may be long and may control a terminal."""
    table = {"k\n\x1b[31m" + "y" * 9999: "x" * 9999 + "\n"}
    message = str(TableOf(Whole()).fault(table))

    assert len(message) < 250
    assert message.isprintable()


@given(ANYTHING)
def test_a_whole_number_in_its_range_is_all_that_passes(value):
    """No other type is taken for a number."""
    is_sound = type(value) is int and 3 <= value <= 9

    assert is_sound == (Whole(3, 9).fault(value) is None)
