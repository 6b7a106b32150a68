"""An option of a backend: declared once, checked and converted everywhere from that declaration."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import attrs

from wlk_core._arguments import is_text, real_number, shown
from wlk_core._fields import check, is_number, is_tuple_of_texts, is_whole, to_tuple
from wlk_core.errors import OptionError

__all__ = ["AUTO", "Option", "Scope"]

Scope = Literal["backend", "stream"]

AUTO = "auto"  #: the value that leaves a choice to the checkpoint or the backend

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPES = (str, int, float, bool)
_TEXTS = check("a list of texts", is_tuple_of_texts)
_LIMIT = check("a number or None", lambda value: value is None or is_number(value))


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value.lower() == AUTO


def _fits(kind: type, value: object) -> bool:
    """Return whether *value* is of the type that an option declares."""
    if kind is int:
        return is_whole(value)
    return is_number(value) if kind is float else isinstance(value, kind)


@attrs.frozen(kw_only=True)
class Option:
    """
    One option of a backend.

    Attributes:
        name: what users type and the keyword of the Python call.
        type: str, int, float or bool; None is always accepted where the default is None.
        default: the value of an option that was left out.
        choices: the allowed values; empty for any.
        help: one line for ``wlk-core backends NAME``.
        scope: "backend" for load_backend, "stream" for create_processor.
        minimum, maximum: inclusive limits of a number.
        is_auto_allowed: the text "auto" stands for None, which leaves the choice to the checkpoint
            or the backend; the default is then None.
        is_auto_measured: the text "auto" is a value beside the numbers: the backend measures itself
            and chooses one; the default may be any.
        policies: the policies that take this option; empty for all of them.
        former_names: names this option had earlier or has in other tools.  They are refused with
            a message that suggests `name`.

    """

    name: str = attrs.field(
        validator=check("a text of [a-z][a-z0-9_]*", lambda value: bool(_NAME.fullmatch(value)))
    )
    type: type[str | int | float | bool] = attrs.field(
        default=str, validator=check("str, int, float or bool", lambda value: value in _TYPES)
    )
    default: Any = None
    choices: tuple[Any, ...] = attrs.field(
        default=(),
        converter=to_tuple,
        validator=check("a list of values", lambda value: isinstance(value, tuple)),
    )
    help: str = attrs.field(
        default="", validator=check("a text", lambda value: isinstance(value, str))
    )
    scope: Scope = attrs.field(
        default="backend",
        validator=check('"backend" or "stream"', lambda value: value in {"backend", "stream"}),
    )
    minimum: float | None = attrs.field(default=None, validator=_LIMIT)
    maximum: float | None = attrs.field(default=None, validator=_LIMIT)
    is_auto_allowed: bool = attrs.field(
        default=False, validator=check("True or False", lambda value: isinstance(value, bool))
    )
    is_auto_measured: bool = attrs.field(
        default=False, validator=check("True or False", lambda value: isinstance(value, bool))
    )
    policies: tuple[str, ...] = attrs.field(default=(), converter=to_tuple, validator=_TEXTS)
    former_names: tuple[str, ...] = attrs.field(default=(), converter=to_tuple, validator=_TEXTS)

    def __attrs_post_init__(self) -> None:
        values = {
            "default": (self.default,) if self.default is not None else (),
            "choices": self.choices,
        }
        for field, declared in values.items():
            if wrong := [value for value in declared if not _fits(self.type, value)]:
                raise ValueError(
                    f"Option {self.name!r}: the field {field} is of type {self.type.__name__}; "
                    f"got {shown(wrong[0])}"
                )
        if self.is_auto_allowed and self.default is not None:
            raise ValueError(
                f"option {self.name}: auto stands for None, so the default is None; "
                f"got {self.default!r}"
            )
        if self.policies and self.scope != "stream":
            raise ValueError(f"option {self.name}: only options of a stream depend on its policy")

    @property
    def takes_auto(self) -> bool:
        """Whether users may type "auto"."""
        return self.is_auto_allowed or self.is_auto_measured

    @property
    def default_text(self) -> str:
        """The default as users type it; "none" where there is nothing to type."""
        if self.default is None:
            return AUTO if self.is_auto_allowed else "none"
        return str(self.default).lower() if self.type is bool else str(self.default)

    def convert(self, value: Any, *, owner: str) -> Any:
        """
        Return *value* as this option's type; text is parsed, as on the command line.

        Raises:
            OptionError: it is of another type, not among the choices or out of range.

        """
        if self._is_left_open(value):
            return None
        if self.is_auto_measured and _is_auto(value):
            return AUTO
        converted = self._parsed(value, owner)
        if self.choices and converted not in self.choices:
            choices = [*([AUTO] if self.takes_auto else []), *map(str, self.choices)]
            raise OptionError(
                f"{owner}: option {self.name} is one of {', '.join(choices)}; got {shown(value)}"
            )
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        if isinstance(converted, (int, float)) and not low <= converted <= high:
            raise OptionError(
                f"{owner}: option {self.name} lies between {low:g} and {high:g}; got {shown(value)}"
            )
        return converted

    def _is_left_open(self, value: Any) -> bool:
        if value is None:
            return self.default is None
        return self.is_auto_allowed and _is_auto(value)

    def _parsed(self, value: Any, owner: str) -> Any:
        article = "an" if self.type is int else "a"
        kind = f"{article} {self.type.__name__}{' or auto' if self.takes_auto else ''}"
        expected = f"{owner}: option {self.name} is {kind}; got {shown(value)}"
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
                return value.lower() in _TRUE
            raise OptionError(expected)
        if self.type is str:
            return self._text(value, expected)
        return self._number(value, expected)

    def _text(self, value: Any, expected: str) -> str:
        if not isinstance(value, str):
            raise OptionError(expected)
        # A path may have bytes that are no text; a stream's text is encoded by the engine.
        if self.scope == "stream" and not is_text(value):
            raise OptionError(f"{expected}, whose lone surrogate stands for no character")
        return value

    def _number(self, value: Any, expected: str) -> int | float:
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            value = real_number(value)
        if value is None or (self.type is int and isinstance(value, float) and value % 1 != 0):
            raise OptionError(expected)
        try:
            number: int | float = int(value) if self.type is int else float(value)
        except (ValueError, OverflowError):
            raise OptionError(expected) from None
        if isinstance(number, float) and not math.isfinite(number):
            raise OptionError(expected)
        return number
