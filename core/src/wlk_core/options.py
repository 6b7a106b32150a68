"""Specs and options that plugins declare; options check and convert the values of users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import difflib
import inspect
import math
from numbers import Integral, Real
import re
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import attrs

from wlk_core.errors import OptionError
from wlk_core.untrusted import printable, real_number, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

Scope = Literal["backend", "stream"]

AUTO = "auto"  #: the value that leaves a choice to the checkpoint or the backend

_NAME = re.compile("[a-z][a-z0-9-]*")  # of a backend or annotator
_SURROGATE = re.compile("[\ud800-\udfff]")  # undecodable bytes
_BOOLS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_CALLS = {"backend": "load_backend(..., {}=...)", "stream": "create_processor({}=...)"}
_LIKENESS = 0.82  # of a typo: max_context_tokens, as others call it, has 0.81 with max_new_tokens
_ARGUMENTS = ("language", "task")  # of create_processor, suggested for typos too


def as_tuple(values: Iterable[Any]) -> Any:
    """Return a collection as a tuple; anything else unchanged, for `check_fields` to reject."""
    value: Any = values
    is_collection = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return tuple(value) if is_collection else value


def check_fields(declaration: Any, **types: Any) -> None:
    """Raise ValueError if a field lacks its annotated type, or the type given in *types*."""
    cls = type(declaration)
    # A plugin's own subclass checks the fields that it adds.
    ours = next(each for each in cls.__mro__ if each.__module__.startswith("wlk_core."))
    kind = attrs.resolve_types(ours, localns={"Mapping": Mapping})
    for name, expected in (types or {each.name: each.type for each in attrs.fields(kind)}).items():
        value = getattr(declaration, name)
        if not _fits(value, expected):
            text = inspect.formatannotation(expected)
            raise ValueError(f"{cls.__name__}: expected {name} as {text}, got {shown(value)}")


def _fits(value: Any, expected: Any) -> bool:
    """Return whether *value*, with all of its items, matches the annotation *expected*."""
    kind, parts = get_origin(expected), get_args(expected)
    if kind is UnionType:
        return any(_fits(value, part) for part in parts)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            all(map(_fits, pair, parts)) and "" not in pair for pair in value.items()
        )
    if kind in {tuple, frozenset}:  # `as_tuple` made a tuple of either
        return isinstance(value, tuple) and all(_fits(each, parts[0]) for each in value)
    if kind in {Literal, type}:
        return isinstance(value, str | type) and value in (get_args(parts[0]) or parts)
    if expected is Any or isinstance(value, bool):
        return expected in {Any, bool}
    return isinstance(value, {int: Integral, float: Real}.get(expected, expected))


@attrs.frozen(kw_only=True)
class Option:
    """One option of a backend or annotator."""

    name: str  #: what users type, and the keyword argument in Python
    type: type[str | int | float | bool] = str  #: of every value but None
    default: Any = None  #: the value if the option is left out
    #: The allowed values; empty for any.  "cuda:N" is cuda:0, cuda:1 and so on.
    choices: tuple[Any, ...] = attrs.field(default=(), converter=as_tuple)
    help: str = ""  #: one line for ``wlk-core backends NAME``
    #: "backend": of load_backend; "stream": of create_processor, or of a text filter and free for
    #: clients of a server to choose
    scope: Scope = "backend"
    minimum: float | None = None  #: inclusive limit of a number
    maximum: float | None = None
    is_auto_allowed: bool = False  #: "auto" becomes None: the checkpoint or the backend chooses
    #: The policies that take this option; empty for all of them.
    policies: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    #: Names in older releases or other tools, rejected with a message that suggests `name`.
    former_names: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "default", self._declared(self.default))
        choices = (self._declared(choice) for choice in self.choices if not self._is_auto(choice))
        object.__setattr__(self, "choices", tuple(choices))
        check_fields(self, default=self.type | None, choices=GenericAlias(tuple, (self.type, ...)))

    @property
    def default_text(self) -> str:
        """The default as users type it; "none" if there is nothing to type."""
        if self.default is None:
            return AUTO if self.is_auto_allowed else "none"
        return str(self.default).lower() if self.type is bool else str(self.default)

    def convert(self, value: Any, *, owner: str) -> Any:
        """Return *value* converted to this option's type; OptionError if that is impossible."""
        # A stream may convert a value twice, and the first time turned "auto" into None.
        if value is None and (self.default is None or self.is_auto_allowed):
            return None
        if self._is_auto(value):
            return None
        converted = self._parsed(value)
        name = f"{owner}: option {self.name}"
        if converted is None:
            kind = "an int" if self.type is int else f"a {self.type.__name__}"
            auto = " or auto" if self.is_auto_allowed else ""
            raise OptionError(f"{name} must be {kind}{auto}; got {shown(value)}")
        if self.choices and not any(_matches(choice, converted) for choice in self.choices):
            choices = [*([AUTO] if self.is_auto_allowed else []), *map(str, self.choices)]
            raise OptionError(f"{name} must be one of {', '.join(choices)}; got {shown(value)}")
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        if isinstance(converted, (int, float)) and not low <= converted <= high:
            raise OptionError(f"{name} must be between {low:g} and {high:g}; got {shown(value)}")
        return converted

    def _is_auto(self, value: Any) -> bool:
        return self.is_auto_allowed and isinstance(value, str) and value.lower() == AUTO

    def _declared(self, value: Any) -> Any:
        # As in `convert`, 5.0 can be an int, and numpy's numbers are numbers.  An int stays an int.
        if self._is_auto(value) or self.type is str or isinstance(value, self.type | int):
            return None if self._is_auto(value) else value
        parsed = self._parsed(value)
        return value if parsed is None else parsed

    def _parsed(self, value: Any) -> Any:
        if self.type is str:
            # A path can contain undecodable bytes, but the engine has to encode a stream's text.
            is_path = isinstance(value, str) and self.scope == "backend"
            is_text = isinstance(value, str) and not _SURROGATE.search(value)
            return value if is_path or (is_text and value) else None
        if self.type is bool:
            known = _BOOLS.get(value.lower()) if isinstance(value, str) else value
            return known if isinstance(known, bool) else None
        number = value if isinstance(value, str) or type(value) is int else real_number(value)
        if number is None or (self.type is int and isinstance(number, float) and number % 1 != 0):
            return None
        try:
            number = int(number) if self.type is int else float(number)
        except (ValueError, OverflowError):
            return None
        return number if isinstance(number, int) or math.isfinite(number) else None


def _matches(choice: Any, value: Any) -> bool:
    if isinstance(choice, str) and choice.endswith(":N"):
        return re.fullmatch(f"{re.escape(choice[:-1])}(0|[1-9][0-9]{{0,2}})", value) is not None
    return bool(choice == value)


@attrs.frozen(kw_only=True)
class PluginSpec:
    """
    What a plugin offers, as constant data: a command or a protocol, or a model's `ModelSpec`.

    `load` is resolved only when the offer is used.
    """

    name: str  #: what users type
    api: int  #: the version of the plugin API that the spec was written for, a literal number
    summary: str  #: one line
    kind: str  #: "command", "protocol", or the kind of a `ModelSpec`
    #: What is offered, as "package.module:attribute": the click command, what the host of a
    #: protocol asks for, or a model's loader.
    load: str

    def __attrs_post_init__(self) -> None:
        check_fields(self)
        if not _NAME.fullmatch(self.name):
            kind = type(self).__name__
            raise ValueError(f"{kind}: expected name as {_NAME.pattern}, got {shown(self.name)}")


@attrs.frozen(kw_only=True)
class ModelSpec(PluginSpec):
    """
    What the specs of backends and annotators have in common; constant data.

    `load` names a loader.  The registry imports it when a model is loaded, and calls
    ``load(spec, model, **options)``, which returns the backend or annotator.
    """

    #: Every option that the loader or a stream takes, declared once.
    options: tuple[Option, ...] = attrs.field(default=(), converter=as_tuple)
    #: The language codes that a stream can be forced to or detect, or that a translator writes.
    languages: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    #: Size aliases and what they stand for (a repository id, or a word such as "bundled"); other
    #: models are repository ids or local directories.
    models: Mapping[str, str] = attrs.field(factory=dict)
    default_model: str | None = None  #: the model that is loaded if none is named
    #: About how many bytes a pull of an alias downloads, and its licence, before it is there.
    model_sizes: Mapping[str, int] = attrs.field(factory=dict)
    model_licences: Mapping[str, str] = attrs.field(factory=dict)
    #: Glob patterns of a model's files in its repository; empty for all of them.  Of alternatives
    #: ("this|that") only the first that matches a file counts, because some repositories contain
    #: the weights in two formats.
    model_files: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    #: The distributions needed at run time, each with the command that installs it.  They are
    #: looked up in package metadata.
    requires: Mapping[str, str] = attrs.field(factory=dict)


class OptionValues(NamedTuple):
    """Converted values by option name: those for load_backend and those for create_processor."""

    backend: dict[str, Any]
    stream: dict[str, Any]


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Parse KEY=VALUE strings; OptionError for any other string, or two values for one key."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise OptionError(f"expected an option as KEY=VALUE, got {pair!r}")
        if values.setdefault(name, value) != value:
            raise OptionError(
                f"option {printable(name)} has two values, {values[name]!r} and {value!r}; keep one"
            )
    return values


def resolve_options(
    declared: Sequence[Option], values: Mapping[str, Any], *, scope: Scope | None, owner: str
) -> dict[str, Any]:
    """
    Return the options of *scope*, None for all, by name, *values* converted and defaults filled in.

    Raises OptionError for an unknown name, an option of the other scope or of another policy, or a
    value that the option does not take.
    """
    known = {option.name: option for option in declared if scope in (None, option.scope)}
    other = {option.name: option for option in declared if option.name not in known}
    for name in values:
        if name in other:
            call = _CALLS[other[name].scope].format(name)
            raise OptionError(f"{owner}: {name} is an option of {call}")
        if name not in known:
            raise _unknown_option(name, declared, owner=owner)
    resolved = {
        name: option.convert(values[name], owner=owner) if name in values else option.default
        for name, option in known.items()
    }
    policy = resolved.get("policy")
    for name in values:
        if known[name].policies and policy not in known[name].policies:
            policies = known[name].policies
            raise OptionError(
                f"{owner}: policy={policy} takes no {name}; leave it out, or choose "
                + " or ".join(f"policy={choice}" for choice in policies)
            )
    return resolved


def _unknown_option(name: str, known: Sequence[Option], *, owner: str) -> OptionError:
    if name == "policy":
        return OptionError(f"{owner} streams by itself and has no policies: leave policy out")
    names = sorted(option.name for option in known)
    close = [option.name for option in known if name in option.former_names]
    close = close or [each for each in (*names, *_ARGUMENTS) if name and each.startswith(name)]
    close = close or difflib.get_close_matches(name, [*names, *_ARGUMENTS], n=1, cutoff=_LIKENESS)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return OptionError(
        f"{owner}: no option is called {name!r}{guess}; expected one of: "
        f"{', '.join(names) or 'none'}"
    )
