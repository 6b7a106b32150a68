"""Validators and converters of declared fields, whose messages name the declaration and field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import math
import re
from typing import TYPE_CHECKING, Any

from wlk_core import untrusted
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    import attrs

__all__ = [
    "check",
    "check_loader",
    "check_name",
    "is_mapping_of_numbers",
    "is_mapping_of_texts",
    "is_number",
    "is_text",
    "is_tuple_of_texts",
    "is_whole",
    "to_dict",
    "to_frozenset",
    "to_tuple",
]

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def check(
    expected: str, accepts: Callable[[Any], bool]
) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Return a validator that raises ValueError unless *accepts* returns true for the value."""

    def validate(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not accepts(value):
            raise ValueError(
                f"{type(instance).__name__} {shown(instance.name)}: the field {attribute.name} is "
                f"{expected}; got {shown(value)}"
            )

    return validate


def check_name(_instance: object, _attribute: object, value: Any) -> None:
    """Raise ValueError unless *value* can be typed as a name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"a name is in [a-z][a-z0-9-]*, got {shown(value)}")


def check_loader(_instance: object, _attribute: object, value: Any) -> None:
    """Raise ValueError unless *value* names a function of a module."""
    if not isinstance(value, str) or not _DOTTED.fullmatch(value):
        raise ValueError(
            'load names a function as "package.module:function", so that a declaration '
            f"imports no framework; got {shown(value)}"
        )


def is_text(value: object) -> bool:
    """Return whether *value* is a string that can be encoded and is not empty."""
    return untrusted.is_text(value) and value != ""


def is_whole(value: object) -> bool:
    """Return whether *value* is a whole number, which a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether *value* is a finite number, which a bool is not."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def is_tuple_of_texts(value: object) -> bool:
    """Return whether *value* is a tuple of strings, none of them empty."""
    return isinstance(value, tuple) and all(map(is_text, value))


def is_mapping_of_texts(value: object) -> bool:
    """Return whether *value* has strings as keys and values, none of them empty."""
    return isinstance(value, dict) and all(is_text(text) for pair in value.items() for text in pair)


def is_mapping_of_numbers(value: object) -> bool:
    """Return whether *value* has strings as keys and finite numbers as values."""
    return isinstance(value, dict) and all(is_text(k) and is_number(v) for k, v in value.items())


def to_tuple(values: Any) -> Any:
    """Return the tuple of a collection; anything else is left for the validator."""
    return tuple(values) if _is_collection(values) else values


def to_frozenset(values: Any) -> Any:
    """Return the frozenset of a collection; anything else is left for the validator."""
    try:
        return frozenset(values) if _is_collection(values) else values
    except TypeError:  # a value that cannot be in a set
        return values


def to_dict(values: Any) -> Any:
    """Return a copy of a mapping, so that no other plugin can change it; leave all else."""
    return dict(values) if isinstance(values, Mapping) else values


def _is_collection(values: object) -> bool:
    # Iterating over "cpu" or {"cpu": 1} would make a tuple of what nobody meant.
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
