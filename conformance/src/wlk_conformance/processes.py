"""Child processes: which are alive, and their end."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BRIEF_GRACE", "CHILD_GRACE", "children", "end_children", "left_running", "remaining"]

#: Parts of the command lines of processes that Python and its frameworks start once and keep.
KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "resource_tracker import",
        "torch/_inductor/compile_worker")  # fmt: skip
CHILD_GRACE = 1.0  # seconds in which a child ends after the close of what it belongs to
BRIEF_GRACE = 0.1  # the same once a backend has left a child, because each search for it waits
TICK = 0.02  # seconds between two looks
TEXT = 60  # characters shown of a command line


def children() -> frozenset[psutil.Process]:
    """Return the children of this process that run; what they start in turn is theirs to end."""
    return frozenset(child for child in psutil.Process().children() if _runs(child))


def remaining(
    before: frozenset[psutil.Process], *, grace: float = CHILD_GRACE
) -> list[psutil.Process]:
    """Return the children that are new since *before* and still run after *grace* seconds."""
    limit = monotonic() + grace
    while new := children() - before:  # psutil.wait_procs would take the exit status of a child
        if monotonic() > limit:
            return sorted(new, key=lambda child: child.pid)
        sleep(TICK)
    return []


def left_running(leaked: Iterable[psutil.Process]) -> str:
    """Return the message of LIFE-10 about children that were left."""
    names = [f"{_command(child)[:TEXT]!r} (process {child.pid})" for child in leaked]
    return f"child processes run after the backend was closed: {', '.join(names)}"


def end_children(leaked: Iterable[psutil.Process]) -> None:
    """Kill the processes, so that no one of them outlives the run."""
    for child in leaked:
        with suppress(psutil.NoSuchProcess):
            child.kill()
            child.wait()


def _runs(child: psutil.Process) -> bool:
    """Return whether *child* is a process to judge: one that has not ended, and is not kept."""
    try:
        is_over = child.status() == psutil.STATUS_ZOMBIE  # nothing waited for it
    except psutil.NoSuchProcess:
        return False
    command = _command(child)
    return not is_over and not any(part in command for part in KEPT)


def _command(child: psutil.Process) -> str:
    try:
        return " ".join(child.cmdline())
    except psutil.Error:
        return ""  # it has ended, or the system refuses it
