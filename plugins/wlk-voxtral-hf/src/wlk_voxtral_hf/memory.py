"""Whether a model fits where it is to run, told before it is tried."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from safetensors import safe_open
import torch

from wlk_core import BackendUnavailable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bytes_of", "memory_of", "require_memory"]


def require_memory(directory: Path, device: str, dtype: torch.dtype) -> None:
    """
    Make sure that the weights in *directory* fit.

    Where memory is promised and not there, as on Linux, the system ends the process instead of
    telling it.

    Raises:
        BackendUnavailable: they do not.

    """
    needed, there = bytes_of(directory, dtype), memory_of(device)
    if there is not None and needed > there:
        raise BackendUnavailable(too_little(directory, device, dtype, needed, there))


def too_little(
    directory: Path, device: str, dtype: torch.dtype, needed: int, there: int | None
) -> str:
    """Return what to tell a user whose memory is too small."""
    has = "" if there is None else f", and {device} has {there / 1e9:.1f} GB"
    smaller = "" if dtype.itemsize < torch.float32.itemsize else "dtype=bfloat16, "
    return (
        f"{directory} takes {needed / 1e9:.1f} GB of memory in {str(dtype).removeprefix('torch.')}"
        f"{has}; choose {smaller}another device, or a quantized model on the backend voxtral-mlx"
    )


def bytes_of(directory: Path, dtype: torch.dtype) -> int:
    """
    Return what the weights in *directory* take in *dtype*; only their headers are read.

    Raises:
        SafetensorError: a file is damaged.

    """
    numbers = 0
    for file in directory.glob("model*.safetensors"):
        # Not "pt", which maps the file for writing: one larger than memory would be refused.
        with safe_open(file, framework="numpy") as weights:
            numbers += sum(math.prod(weights.get_slice(one).get_shape()) for one in weights.keys())  # noqa: SIM118 -- not a dict
    return numbers * dtype.itemsize


def memory_of(device: str) -> int | None:
    """Return the bytes of a device that a model can have, None where nobody tells."""
    if device == "cuda":
        free: int = torch.cuda.mem_get_info()[0]
        return free
    if device == "mps":
        most: int = torch.mps.recommended_max_memory()
        return most
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None
