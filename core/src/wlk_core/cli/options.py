"""Options that the commands of several distributions share, with completion of their values."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wlk_core.cli.main import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Return the backends, or models of --backend (else of all), whose names begin with *typed*."""
    registry, backend = registry_of(context), context.params.get("backend")
    specs = (registry.model_spec(backend),) if backend else registry.specs()
    names = (spec.models if parameter.name == "model" else (spec.name,) for spec in specs)
    return sorted(name for name in set(chain(*names)) if name.startswith(typed))


#: The option --backend; callers add the other arguments, such as help.
backend_option = partial(click.option, "--backend", metavar="NAME", shell_complete=complete)
