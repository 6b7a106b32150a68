"""Options: declared once by a backend, checked and converted everywhere from that declaration."""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING, Any, Literal

import attrs

from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Option", "Scope", "resolve_options"]

Scope = Literal["backend", "stream"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(values)


@attrs.frozen(kw_only=True)
class Option:
    """
    One option of a backend.

    Attributes:
        name: what users type and the keyword of the Python call.
        type: str, int, float or bool; None is always accepted where the default is None.
        default: the value when it is not given.
        choices: the allowed values; empty for any.
        help: one line for ``wlk-core backends``.
        scope: "backend" for load_backend, "stream" for create_processor.
        minimum, maximum: inclusive limits of a number.

    """

    name: str
    type: type[str | int | float | bool] = str
    default: Any = None
    choices: tuple[Any, ...] = attrs.field(default=(), converter=_tuple)
    help: str = ""
    scope: Scope = "backend"
    minimum: float | None = None
    maximum: float | None = None

    def convert(self, value: Any, *, owner: str) -> Any:
        """
        Return *value* as this option's type; text is parsed, as on the command line.

        Raises:
            OptionError: it is of another type, not among the choices or out of range.

        """
        if value is None and self.default is None:
            return None
        converted = self._parsed(value, owner)
        if self.choices and converted not in self.choices:
            raise OptionError(
                f"{owner}: option {self.name} is one of "
                f"{', '.join(map(str, self.choices))}; got {value!r}"
            )
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        if isinstance(converted, (int, float)) and not low <= converted <= high:
            raise OptionError(
                f"{owner}: option {self.name} lies between {low:g} and {high:g}; got {value!r}"
            )
        return converted

    def _parsed(self, value: Any, owner: str) -> Any:
        expected = f"{owner}: option {self.name} is a {self.type.__name__}; got {value!r}"
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
                return value.lower() in _TRUE
            raise OptionError(expected)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise OptionError(expected)
        if self.type is str:
            if not isinstance(value, str):
                raise OptionError(expected)
            return value
        if self.type is int and isinstance(value, float) and not value.is_integer():
            raise OptionError(expected)
        try:
            number = self.type(value)
        except (ValueError, OverflowError):
            raise OptionError(expected) from None
        if isinstance(number, float) and not math.isfinite(number):
            raise OptionError(expected)
        return number


def resolve_options(
    declared: Iterable[Option], given: Mapping[str, Any], *, scope: Scope, owner: str
) -> dict[str, Any]:
    """
    Return the options of *scope* by name, given values converted and defaults filled in.

    Raises:
        OptionError: an unknown name, an option of the other scope, or a value it does not take.

    """
    declared = tuple(declared)
    known = {option.name: option for option in declared if option.scope == scope}
    elsewhere = {option.name: option for option in declared if option.scope != scope}
    for name in given:
        if name in known:
            continue
        if name in elsewhere:
            where = {
                "backend": "load_backend(..., {}=...)",
                "stream": "create_processor({}=...)",
            }[elsewhere[name].scope]
            raise OptionError(f"{owner}: {name} is given to {where.format(name)}")
        close = difflib.get_close_matches(name, known, n=1)
        guess = f" (did you mean {close[0]}?)" if close else ""
        choices = ", ".join(sorted(known)) or "none"
        raise OptionError(
            f"{owner}: no option is called {name!r}{guess}; expected one of: {choices}"
        )
    return {
        name: option.convert(given[name], owner=owner) if name in given else option.default
        for name, option in known.items()
    }
