"""Whether a model fits into memory, found out before it is loaded."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["count_parameters", "out_of_memory", "physical_memory", "require_memory"]


def require_memory(
    model: str, *, needed: int, available: int | None, device: str, remedy: str
) -> None:
    """
    Make sure that *model* with its *needed* bytes fits into the *available* ones of *device*.

    Check before loading, because where memory is overcommitted, as on Linux, the system ends the
    process instead of raising MemoryError.  Where *available* is None nothing is checked.

    Raises:
        BackendUnavailable: the model does not fit; the message ends with *remedy*.

    """
    if available is not None and needed > available:
        raise out_of_memory(model, needed=needed, available=available, device=device, remedy=remedy)


def out_of_memory(
    model: str, *, needed: int, available: int | None, device: str, remedy: str
) -> BackendUnavailable:
    """Return the error for a model that does not fit, with what the user can do instead."""
    limit = "" if available is None else f", and {device} has {available / 1e9:.1f} GB"
    return BackendUnavailable(f"{model} needs {needed / 1e9:.1f} GB of memory{limit}; {remedy}")


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine, None where the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def count_parameters(files: Iterable[Path]) -> int:
    """
    Return how many numbers safetensors *files* hold; only their headers are read.

    Raises:
        SafetensorError: a file is damaged.

    """
    from safetensors import safe_open  # noqa: PLC0415 -- comes with the plugins that need it

    count = 0
    for file in files:
        # Not framework "pt", which maps the file for writing and refuses one larger than memory.
        with safe_open(file, framework="numpy") as weights:
            names: Iterable[str] = weights.keys()
            count += sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    return count
