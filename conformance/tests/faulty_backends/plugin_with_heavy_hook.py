"""A plugin that imports numpy when it offers its backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_core.plugins import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.plugins import BackendSpec

__all__ = ["wlk_backends"]


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    import numpy as np  # noqa: F401, PLC0415 -- the fault

    return [SCRIPTED_SPEC]
