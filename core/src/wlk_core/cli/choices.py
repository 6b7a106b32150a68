"""What a user typed after ``--option`` and ``--policy``, sorted by the scope a backend declares."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.backend import BackendSpec

__all__ = ["parse_pairs", "split_by_scope"]


def parse_pairs(given: Iterable[str], policy: str | None) -> dict[str, str]:
    """
    Return KEY=VALUE pairs as a dict, the policy among them.

    Raises:
        click.BadParameter: no KEY=VALUE, or one key with two values.

    """
    pairs: dict[str, str] = {} if policy is None else {"policy": policy}
    for text in given:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", param_hint="--option")
        if pairs.get(key, value) != value:
            raise click.BadParameter(
                f"{key} is given twice, as {pairs[key]!r} and {value!r}", param_hint="--option"
            )
        pairs[key] = value
    return pairs


def split_by_scope(
    spec: BackendSpec, pairs: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """
    Return the options for loading *spec* and those for its streams, all checked.

    Raises:
        OptionError: an unknown option or a value it does not take.

    """
    scopes = {option.name: option.scope for option in spec.all_options}
    for name in pairs:
        if name not in scopes:
            close = difflib.get_close_matches(name, scopes, n=1)
            guess = f" (did you mean {close[0]}?)" if close else ""
            raise OptionError(
                f"{spec.name}: no option is called {name!r}{guess}; "
                f"expected one of: {', '.join(sorted(scopes)) or 'none'}"
            )
    backend = {name: value for name, value in pairs.items() if scopes[name] == "backend"}
    stream = {name: value for name, value in pairs.items() if scopes[name] == "stream"}
    spec.backend_options(backend)
    spec.stream_options(stream)
    return backend, stream
