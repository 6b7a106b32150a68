"""
Kinds of JSON values: what a key of a model's file may hold.

A schema is a `Table` of kinds.  It declares the keys that a program reads; other keys may hold
anything.  In most tables, null is as good as no key.

>>> schema = Table({"layers": Whole(1, 64), "dtype": Text("float32", "float16")})
>>> schema.fault({"layers": 0, "comment": "any"})
Fault(key='layers', expected='a whole number from 1 to 64', found=0)
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AnyOf",
    "Fault",
    "Flag",
    "Kind",
    "ListOf",
    "Number",
    "Table",
    "TableOf",
    "Text",
    "Whole",
]

_LARGEST = 2**31 - 1  # of a size that any framework counts in 32 bits
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


@attrs.frozen
class Fault:
    """A value that its kind does not allow; `key` is the path to it, "" for the whole file."""

    key: str
    expected: str
    found: Any

    def __str__(self) -> str:
        """Return the fault in one line of bounded length."""
        return f"expected {self.key and f'{self.key} as '}{self.expected}, got {short(self.found)}"


class Kind(Protocol):
    """What a value may be."""

    @property
    def description(self) -> str:
        """The kind in words, such as "a whole number from 1 to 64"."""
        ...

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the first fault of *value*, whose path is *key*; None where it has none."""
        ...


@attrs.frozen
class Whole:
    """A whole number; true, false and 1.0 are none."""

    minimum: int = 0
    maximum: int = _LARGEST

    @property
    def description(self) -> str:
        """The kind in words."""
        return f"a whole number from {self.minimum} to {self.maximum}"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of *value*."""
        is_sound = type(value) is int and self.minimum <= value <= self.maximum
        return None if is_sound else Fault(key, self.description, value)


@attrs.frozen
class Number:
    """A finite number."""

    minimum: float
    maximum: float

    @property
    def description(self) -> str:
        """The kind in words."""
        return f"a number from {self.minimum:g} to {self.maximum:g}"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of *value*."""
        is_sound = type(value) in (int, float) and self.minimum <= value <= self.maximum
        return None if is_sound else Fault(key, self.description, value)


@attrs.frozen(init=False)
class Text:
    """Text: any, or one of the choices."""

    choices: tuple[str, ...]

    def __init__(self, *choices: str) -> None:
        self.__attrs_init__(choices)

    @property
    def description(self) -> str:
        """The kind in words."""
        return f"one of {', '.join(self.choices)}" if self.choices else "text"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of *value*."""
        is_sound = isinstance(value, str) and (not self.choices or value in self.choices)
        return None if is_sound else Fault(key, self.description, value)


@attrs.frozen
class Flag:
    """True or false."""

    @property
    def description(self) -> str:
        """The kind in words."""
        return "true or false"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of *value*."""
        return None if isinstance(value, bool) else Fault(key, self.description, value)


@attrs.frozen
class ListOf:
    """A list of values of one kind; `label` describes it in better words."""

    item: Kind
    length: int | None = None
    minimum_length: int = 0
    label: str = ""

    @property
    def description(self) -> str:
        """The kind in words."""
        count = "" if self.length is None else f"{self.length} values, each "
        return self.label or f"a list of {count}{self.item.description}"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of the list, or the first fault inside a table of it."""
        is_list = isinstance(value, list) and len(value) >= self.minimum_length
        if not is_list or self.length not in (None, len(value)):
            return Fault(key, self.description, value)
        for index, entry in enumerate(value):
            fault = self.item.fault(entry, f"{key}[{index}]")
            if fault is not None:
                is_inside = isinstance(self.item, (Table, TableOf))
                return fault if is_inside else Fault(key, self.description, value)
        return None


@attrs.frozen
class AnyOf:
    """A value of any of these kinds."""

    kinds: tuple[Kind, ...]
    label: str = ""

    @property
    def description(self) -> str:
        """The kind in words."""
        return self.label or " or ".join(kind.description for kind in self.kinds)

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of *value*."""
        is_sound = any(kind.fault(value, key) is None for kind in self.kinds)
        return None if is_sound else Fault(key, self.description, value)


@attrs.frozen
class TableOf:
    """A table with any keys, whose values are all of one kind."""

    item: Kind

    @property
    def description(self) -> str:
        """The kind in words."""
        return f"a table whose values are {self.item.description}"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of the table, or of the first value in it."""
        if not isinstance(value, dict):
            return Fault(key, "a table", value)
        faults = (self.item.fault(entry, _joined(key, name)) for name, entry in value.items())
        return next((fault for fault in faults if fault is not None), None)


@attrs.frozen
class Table:
    """
    A table; the keys in `required` must be there, and all others may be absent.

    Null is as good as no key, unless `refuses_null`, for a file that a library reads by itself.
    """

    keys: Mapping[str, Kind] = attrs.field(factory=dict)
    required: tuple[str, ...] = ()
    refuses_null: bool = False

    @property
    def description(self) -> str:
        """The kind in words."""
        return "a table"

    def fault(self, value: Any, key: str = "") -> Fault | None:
        """Return the fault of the table, or of the first value in it."""
        if not isinstance(value, dict):
            return Fault(key, self.description, value)
        for name, kind in self.keys.items():
            entry = value.get(name)
            is_absent = name not in value or not self.refuses_null
            if entry is None and is_absent and name not in self.required:
                continue
            fault = kind.fault(entry, _joined(key, name))
            if fault is not None:
                return fault
        return None


def short(value: Any) -> str:
    """Return *value* in one line of bounded length; strings show their control characters."""
    return "null" if value is None else _SHORT.repr(value)


def _joined(key: str, name: str) -> str:
    shown = name if name.isidentifier() and len(name) <= 60 else short(name)  # noqa: PLR2004
    return f"{key}.{shown}" if key else shown
