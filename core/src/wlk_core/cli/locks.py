"""Locks on output files, so that two runs never write the same one."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
import hashlib
import os
from typing import TYPE_CHECKING

import filelock

from wlk_core._directories import lock_directory
from wlk_core.cli.outputs import is_regular
from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["locked"]


@contextmanager
def locked(paths: Iterable[Path | None]) -> Iterator[None]:
    """
    Keep other runs of the same user from writing *paths*; None, devices and pipes are left out.

    The locks are files in a directory of their own, because a file that is replaced loses its lock
    and one beside it would remain.  Where that directory cannot be written there are no locks.

    Raises:
        WLKError: another run writes one of them.

    """
    with ExitStack() as stack:
        for path in paths:
            if path is not None and is_regular(path):
                stack.callback(_lock(path).release)
        yield


def _lock(path: Path) -> filelock.BaseFileLock:
    name = os.path.normcase(os.path.realpath(path))
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    lock = filelock.FileLock(lock_directory() / f"{digest}.lock", timeout=0)
    try:
        lock_directory().mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise WLKError(
            f"another run of wlk-core is writing {path}; wait for its end, or choose another path "
            "with --output"
        ) from None
    except (OSError, NotImplementedError):
        pass  # no place for locks, or a file system without them
    return lock
