"""Child processes: which are alive, and their end."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import signal
from time import monotonic, sleep

import attrs

__all__ = [
    "BRIEF_GRACE",
    "CHILD_GRACE",
    "Child",
    "children",
    "end_children",
    "left_running",
    "remaining",
]

PROCESSES = Path("/proc")
TASKS = PROCESSES / "self" / "task"
#: Parts of the command lines of processes that Python and its frameworks start once and keep.
KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "resource_tracker import",
        "torch/_inductor/compile_worker")  # fmt: skip
CHILD_GRACE = 1.0  # seconds in which a child ends after the close of what it belongs to
BRIEF_GRACE = 0.1  # the same once a backend has left a child, because each search for it waits
TICK = 0.02  # seconds between two looks
TEXT = 60  # characters shown of a command line


@attrs.frozen
class Child:
    """A child process; the time at which it began distinguishes it from a later one of its id."""

    pid: int
    began: str
    command: str = attrs.field(eq=False)

    def __str__(self) -> str:
        """Return its command and id."""
        return f"{self.command[:TEXT]!r} (process {self.pid})"


def children() -> frozenset[Child]:
    """Return the child processes that run; empty where the system is no Linux."""
    return frozenset(
        child
        for pid in _ids()
        if (child := _child(pid)) is not None and not any(part in child.command for part in KEPT)
    )


def remaining(before: frozenset[Child], *, grace: float = CHILD_GRACE) -> list[Child]:
    """Return the children that are new since *before* and still run after *grace* seconds."""
    limit = monotonic() + grace
    while new := children() - before:
        if monotonic() > limit:
            return sorted(new, key=lambda child: child.pid)
        sleep(TICK)
    return []


def left_running(leaked: list[Child]) -> str:
    """Return the message of LIFE-10 about children that were left."""
    return f"child processes run after the backend was closed: {', '.join(map(str, leaked))}"


def end_children(leaked: list[Child]) -> None:
    """Kill the processes, so that no one of them outlives the run."""
    for child in leaked:
        with suppress(OSError):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)


def _ids() -> list[int]:
    ids: list[int] = []
    for task in TASKS.iterdir() if TASKS.is_dir() else ():
        with suppress(OSError):  # the thread has ended
            ids += [int(pid) for pid in (task / "children").read_text().split()]
    return ids


def _child(pid: int) -> Child | None:
    """Return the process *pid*; None where it has ended, also if it was not waited for."""
    try:
        stat = (PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
        command = (PROCESSES / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    if stat[0] in "ZX":
        return None
    return Child(pid, stat[19], command.replace(b"\0", b" ").decode(errors="replace").strip())
