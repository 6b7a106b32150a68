"""Whether a model fits where it is to run, told before it is tried."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from wlk_core import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["memory_of", "require_memory"]


def require_memory(directory: Path, tensors: Iterable[mx.array], dtype: mx.Dtype | None) -> None:
    """
    Make sure that *tensors*, floating ones cast to *dtype*, fit on the device in use.

    MLX ends the process where memory is not there, and a Mac swaps.

    Raises:
        BackendUnavailable: they do not.

    """
    needed, there = sum(_bytes(one, dtype) for one in tensors), memory_of()
    if there is not None and needed > there:
        raise BackendUnavailable(
            f"{directory} takes {needed / 1e9:.1f} GB of memory, and there are {there / 1e9:.1f} "
            "GB; choose a quantized model such as mini-4bit"
        )


def memory_of() -> int | None:
    """Return the bytes a model can have on the default device, None where nobody tells."""
    told: dict[str, Any] = mx.device_info()
    for name in ("max_recommended_working_set_size", "total_memory", "memory_size"):
        if name in told:
            return int(told[name])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def _bytes(tensor: mx.array, dtype: mx.Dtype | None) -> int:
    if dtype is None or not mx.issubdtype(tensor.dtype, mx.floating):
        return int(tensor.nbytes)
    return int(tensor.size * dtype.size)
