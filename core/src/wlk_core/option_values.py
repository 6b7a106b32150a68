"""Values for options: KEY=VALUE text and mappings, checked against what a backend declares."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wlk_core import standard_options
from wlk_core.errors import OptionError
from wlk_core.options import Option
from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wlk_core.options import Scope

__all__ = [
    "NO_POLICIES",
    "OptionValues",
    "parse_pairs",
    "resolve_options",
    "split_options",
]

NO_POLICIES = "streams by itself and has no policies"

_STANDARD = (
    standard_options.device(),
    standard_options.dtype(),
    *(value for value in vars(standard_options).values() if isinstance(value, Option)),
)
_CALLS = {"backend": "load_backend(..., {}=...)", "stream": "create_processor({}=...)"}
# Arguments that stand beside the options of a stream, and where.
_ARGUMENTS = {
    **dict.fromkeys(("language", "task"), "create_processor, transcribe and stream"),
    **dict.fromkeys(("vad", "chunk_seconds", "sample_rate"), "transcribe and stream"),
}


class DeclaresOptions(Protocol):
    """What is needed here of a BackendSpec, which is built on this module."""

    @property
    def name(self) -> str: ...

    @property
    def all_options(self) -> tuple[Option, ...]: ...


class OptionValues(NamedTuple):
    """Converted values by option name: those for load_backend and those for create_processor."""

    backend: dict[str, Any]
    stream: dict[str, Any]


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """
    Return the values of KEY=VALUE strings, unchecked.

    Raises:
        OptionError: a string is not KEY=VALUE, or one key has two values.

    """
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


def split_options(spec: DeclaresOptions, values: Mapping[str, Any]) -> OptionValues:
    """
    Return *values* of options of both scopes by scope, converted and checked.

    Only the options in *values* are returned; their policy is the one that *values* or *spec*
    chooses.

    Raises:
        OptionError: an option is unknown or does not take its value; the message suggests the
            right option of this backend.

    """
    scopes = {option.name: option.scope for option in spec.all_options}
    for name in values:
        if name not in scopes:
            raise _unknown(name, spec.all_options, owner=spec.name)
    backend = {name: value for name, value in values.items() if scopes[name] == "backend"}
    stream = {name: value for name, value in values.items() if scopes[name] == "stream"}
    declared, owner = spec.all_options, spec.name
    resolved_backend = resolve_options(declared, backend, scope="backend", owner=owner)
    resolved_stream = resolve_options(declared, stream, scope="stream", owner=owner)
    return OptionValues(
        {name: resolved_backend[name] for name in backend},
        {name: resolved_stream[name] for name in stream},
    )


def resolve_options(
    declared: Iterable[Option], values: Mapping[str, Any], *, scope: Scope, owner: str
) -> dict[str, Any]:
    """
    Return the options of *scope* by name, *values* converted and defaults filled in.

    Raises:
        OptionError: an unknown name, an option of the other scope or of another policy, or a
            value it does not take.

    """
    declared = tuple(declared)
    known = {option.name: option for option in declared if option.scope == scope}
    other = {option.name: option for option in declared if option.scope != scope}
    for name in values:
        if name in other:
            call = _CALLS[other[name].scope].format(name)
            raise OptionError(f"{owner}: {name} is an option of {call}")
        if name not in known:
            raise _unknown(name, known.values(), owner=owner)
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


def _unknown(name: str, known: Iterable[Option], *, owner: str) -> OptionError:
    """Describe an option that is not declared, with the declared one that was probably meant."""
    if name == "policy":
        return OptionError(f"{owner} {NO_POLICIES}: leave policy out")
    known = tuple(known)
    names = sorted(option.name for option in known)
    former = [option.name for option in known if name in option.former_names]
    # A name that is right for other backends means something else than what looks alike here.
    is_standard = any(name in (option.name, *option.former_names) for option in _STANDARD)
    close = former
    if not close and not is_standard:
        close = difflib.get_close_matches(name, [*names, *_ARGUMENTS], n=1)
    owners = "".join(f" of {_ARGUMENTS[meant]}" for meant in close if meant in _ARGUMENTS)
    guess = f" (did you mean {close[0]}{owners}?)" if close else ""
    return OptionError(
        f"{owner}: no option is called {name!r}{guess}; expected one of: "
        f"{', '.join(names) or 'none'}"
    )
