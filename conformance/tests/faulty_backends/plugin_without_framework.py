"""A plugin whose error does not explain that its framework is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faulty_backends.framework import load_or_raise, spec_of
from wlk_core.plugins import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.plugins import Backend, BackendSpec

__all__ = ["load", "wlk_backends"]


def load(spec: BackendSpec, model: str | None, **_options: Any) -> Backend:
    """Load the scripted backend."""
    return load_or_raise(spec, model, RuntimeError("something went wrong"))


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [spec_of(__name__)]
