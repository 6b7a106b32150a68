"""A plugin module that imports numpy before anyone asks for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_core import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import BackendSpec

__all__ = ["SILENCE", "wlk_backends"]

SILENCE = np.zeros(1280, dtype=np.float32)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [SCRIPTED_SPEC]
