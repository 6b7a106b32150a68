"""What wlk-qwen3-simul offers: declarations only, nothing heavy is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core import hookimpl
from wlk_qwen3_simul.specs import QWEN3_MLX_SIMUL, QWEN3_SIMUL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import BackendSpec

__all__ = ["wlk_backends"]


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (QWEN3_MLX_SIMUL, QWEN3_SIMUL)
