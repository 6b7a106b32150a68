"""The memory of an MLX device, and what weights take of it."""

from __future__ import annotations

import os
from typing import Any

import mlx.core as mx

__all__ = ["device_memory", "weight_bytes"]


def device_memory() -> int | None:
    """Return the bytes a model may use on the default device, None where nothing reports them."""
    device: dict[str, Any] = mx.device_info()
    for name in ("max_recommended_working_set_size", "total_memory", "memory_size"):
        if name in device:
            return int(device[name])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def weight_bytes(tensor: mx.array, dtype: mx.Dtype | None) -> int:
    """Return the bytes of *tensor*, cast to *dtype* if both are floating."""
    if dtype is None or not mx.issubdtype(tensor.dtype, mx.floating):
        return int(tensor.nbytes)
    return int(tensor.size * dtype.size)
