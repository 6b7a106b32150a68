"""An option of a backend: declared once, checked and converted everywhere from that declaration."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import attrs

from wlk_core._fields import check, is_number, is_tuple_of_texts, is_whole, to_tuple
from wlk_core.errors import OptionError
from wlk_core.untrusted import is_text, real_number, shown

__all__ = ["AUTO", "Option", "Scope", "are_options"]

Scope = Literal["backend", "stream"]

AUTO = "auto"  #: the value that leaves a choice to the checkpoint or the backend

_BOOLS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPES = (str, int, float, bool)
_BOOL = check("True or False", lambda value: isinstance(value, bool))
_TEXTS = check("a list of strings", is_tuple_of_texts)
_LIMIT = check("a number or None", lambda value: value is None or is_number(value))


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
        is_auto_allowed: "auto" stands for None, which leaves the choice to the checkpoint or the
            backend; the default is then None.
        policies: the policies that take this option; empty for all of them.
        former_names: names this option had earlier or has in other tools.  They are refused with
            a message that suggests `name`.

    """

    name: str = attrs.field(
        validator=check(
            "a string of [a-z][a-z0-9_]*",
            lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value)),
        )
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
        default="", validator=check("a string", lambda value: isinstance(value, str))
    )
    scope: Scope = attrs.field(
        default="backend",
        validator=check('"backend" or "stream"', lambda value: value in ("backend", "stream")),
    )
    minimum: float | None = attrs.field(default=None, validator=_LIMIT)
    maximum: float | None = attrs.field(default=None, validator=_LIMIT)
    is_auto_allowed: bool = attrs.field(default=False, validator=_BOOL)
    policies: tuple[str, ...] = attrs.field(default=(), converter=to_tuple, validator=_TEXTS)
    former_names: tuple[str, ...] = attrs.field(default=(), converter=to_tuple, validator=_TEXTS)

    def __attrs_post_init__(self) -> None:
        defaults = () if self.default is None else (self.default,)
        for field, declared in {"default": defaults, "choices": self.choices}.items():
            if wrong := [value for value in declared if not self._is_of_type(value)]:
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
        if value is None and self.default is None:
            return None
        if self.is_auto_allowed and isinstance(value, str) and value.lower() == AUTO:
            return None
        converted = self._parsed(value)
        name = f"{owner}: option {self.name}"
        if converted is None:
            article = "an" if self.type is int else "a"
            auto = " or auto" if self.is_auto_allowed else ""
            # A path may have bytes that are not text; a stream's text is encoded by the engine.
            why = (
                ", which has a lone surrogate"
                if isinstance(value, str) and self.type is str
                else ""
            )
            raise OptionError(
                f"{name} is {article} {self.type.__name__}{auto}; got {shown(value)}{why}"
            )
        if self.choices and converted not in self.choices:
            choices = [*([AUTO] if self.is_auto_allowed else []), *map(str, self.choices)]
            raise OptionError(f"{name} is one of {', '.join(choices)}; got {shown(value)}")
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        if isinstance(converted, (int, float)) and not low <= converted <= high:
            raise OptionError(f"{name} lies between {low:g} and {high:g}; got {shown(value)}")
        return converted

    def _is_of_type(self, value: object) -> bool:
        if self.type is int:
            return is_whole(value)
        return is_number(value) if self.type is float else isinstance(value, self.type)

    def _parsed(self, value: Any) -> Any:
        """Return *value* as this option's type, None where that is not possible."""
        if self.type is str:
            is_accepted = is_text(value) or (isinstance(value, str) and self.scope == "backend")
            return value if is_accepted else None
        if self.type is bool:
            known = _BOOLS.get(value.lower()) if isinstance(value, str) else value
            return known if isinstance(known, bool) else None
        number = value if isinstance(value, str) or is_whole(value) else real_number(value)
        if number is None or (self.type is int and isinstance(number, float) and number % 1 != 0):
            return None
        try:
            number = int(number) if self.type is int else float(number)
        except (ValueError, OverflowError):
            return None
        return number if isinstance(number, int) or math.isfinite(number) else None


def are_options(value: object) -> bool:
    """Return whether *value* is a tuple of options."""
    return isinstance(value, tuple) and all(isinstance(option, Option) for option in value)
