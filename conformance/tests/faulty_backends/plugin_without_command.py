"""A plugin whose error names no command that installs its framework (pytest stands for one)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_core.errors import BackendUnavailable
from wlk_core.plugins import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.plugins import Backend, BackendSpec

__all__ = ["load", "wlk_backends"]


def load(spec: BackendSpec, model: str | None, **_options: Any) -> Backend:
    """Load the scripted backend."""
    try:
        import pytest  # noqa: F401, PLC0415 -- stands for a framework
    except ImportError:
        raise BackendUnavailable("pytest cannot be imported") from None
    from wlk_conformance.scripted import backend  # noqa: PLC0415 -- brings numpy

    return backend.load(spec, model)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [
        attrs.evolve(
            SCRIPTED_SPEC,
            load="faulty_backends.plugin_without_command:load",
            requires={"pytest": "pip install pytest"},
        )
    ]
