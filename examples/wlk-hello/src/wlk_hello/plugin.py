"""Declare the backend, without importing its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import BackendSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

SPEC = BackendSpec(
    name="hello",
    api=1,
    summary="emits hello for every burst of sound",
    load="wlk_hello.backend:load",
    capabilities={"hypothesis", "word-times", "bounded-state"},
    policies=("local-agreement",),
    models={"toy": "bundled"},
    default_model="toy",
    max_delay=3.0,
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return [SPEC]
