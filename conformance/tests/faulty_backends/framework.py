"""A plugin whose framework pytest stands for, so that a test can take the framework away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.scripted.plugin import SCRIPTED_SPEC

if TYPE_CHECKING:
    from wlk_core.plugins import Backend, BackendSpec

__all__ = ["load_or_raise", "spec_of"]


def spec_of(module: str) -> BackendSpec:
    """Return the declaration of a plugin that requires pytest, loaded by `load` of *module*."""
    return attrs.evolve(
        SCRIPTED_SPEC, load=f"{module}:load", requires={"pytest": "pip install pytest"}
    )


def load_or_raise(spec: BackendSpec, model: str | None, error: Exception) -> Backend:
    """Load the scripted backend; raise *error* where the framework is absent."""
    try:
        import pytest  # noqa: F401, PLC0415 -- stands for a framework
    except ImportError:
        raise error from None
    from wlk_conformance.scripted import backend  # noqa: PLC0415 -- brings numpy

    return backend.load(spec, model)
