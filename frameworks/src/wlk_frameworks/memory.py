"""Check that a model fits into memory before it is loaded, and query what frameworks hold."""

from __future__ import annotations

import os
import sys

from wlk_core.errors import BackendUnavailable


def require_memory(
    model: str, *, needed: int, available: int | None, device: str, remedy: str
) -> None:
    """
    Raise BackendUnavailable unless *needed* bytes fit into the *available* bytes of *device*.

    If *available* is None, nothing is checked.  The message names *model* and ends with *remedy*.
    """
    # A system that overcommits memory, such as Linux, kills a process that runs out of it instead
    # of raising MemoryError.
    if available is not None and needed > available:
        raise out_of_memory(model, needed=needed, available=available, device=device, remedy=remedy)


def out_of_memory(
    model: str, *, needed: int, available: int | None, device: str, remedy: str
) -> BackendUnavailable:
    """Return the error for a model that does not fit; *remedy* is what the user can do instead."""
    limit = "" if available is None else f", and {device} has {available / 1e9:.1f} GB"
    return BackendUnavailable(f"{model} needs {needed / 1e9:.1f} GB of memory{limit}; {remedy}")


def physical_memory() -> int | None:
    """Return the bytes of memory in this machine, None if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def framework_memory() -> int | None:
    """
    Return the bytes that MLX and torch hold on their devices; None if they are not in use.

    For MLX this includes freed memory that it keeps.  Torch's memory is known on CUDA only.
    Nothing is imported.
    """
    mlx, torch = sys.modules.get("mlx.core"), sys.modules.get("torch")
    held: list[int] = []
    if mlx is not None:
        held.append(mlx.get_active_memory() + mlx.get_cache_memory())
    if torch is not None and torch.cuda.is_initialized():
        held += [torch.cuda.memory_allocated(index) for index in range(torch.cuda.device_count())]
    return sum(held) if held else None
