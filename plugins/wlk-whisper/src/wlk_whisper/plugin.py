"""What wlk-whisper offers: declarations only, nothing heavy is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core import hookimpl
from wlk_whisper.specs.api import OPENAI_API
from wlk_whisper.specs.faster import FASTER_WHISPER
from wlk_whisper.specs.mlx import MLX_WHISPER
from wlk_whisper.specs.torch import WHISPER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import BackendSpec

__all__ = ["wlk_backends"]


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (FASTER_WHISPER, MLX_WHISPER, OPENAI_API, WHISPER)
