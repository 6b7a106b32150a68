"""A plugin that says nothing useful where its framework (pytest, for want of another) is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_core import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend, BackendSpec

__all__ = ["wlk_backends"]


def _load(model: str | None, **options: Any) -> Backend:
    try:
        import pytest  # noqa: F401, PLC0415 -- stands for a framework
    except ImportError:
        raise RuntimeError("something went wrong") from None
    return SCRIPTED_SPEC.load(model, **options)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [attrs.evolve(SCRIPTED_SPEC, load=_load, requires={"pytest": "pip install pytest"})]
