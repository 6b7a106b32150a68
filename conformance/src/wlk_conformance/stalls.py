"""Tell a process that hangs from one that a loaded machine keeps waiting."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Times the limit: wall time after which a call counts as hung whatever the machine was doing.
LAST = 10
IDLE = 0.1  # share of a processor below which a process without a runnable thread is idle
SAMPLES = 10  # taken at least within the limit, because each reads every process of the machine
LONGEST = 1.0  # seconds between two samples
#: States of a thread that waits for the machine: for a processor, or for a page or a file.
UNSERVED = frozenset("RD")
TASKS = Path("/proc")

#: Seconds of processor time so far, and whether a thread waits for the machine.
Look = tuple[float, bool]


class Stall:
    """
    The time since a process last made progress, in three parts that are judged apart.

    Wall time alone would condemn a loaded machine.  A call hangs if it *computed* for the limit, or
    was *idle* for the limit, which means that no thread asked for a processor.
    """

    def __init__(self, look: Callable[[], Look], *, clock: Callable[[], float] = monotonic) -> None:
        self._look, self._clock = look, clock
        self.moved()

    def moved(self) -> None:
        """Begin again, because the process made progress."""
        self.computed = self.idle = 0.0
        self._began = self._sampled = self._clock()
        self._spent: float | None = None

    def hang(self, limit: float) -> str:
        """Return how long no call has returned if that is too long, else ""."""
        now = self._clock()
        if now - self._sampled >= min(LONGEST, limit / SAMPLES):
            self._sample(now)
        if self.idle > limit:
            return f"{limit:g} s"
        if self.computed > limit:
            return f"{limit:g} s of processor time"
        return f"{LAST * limit:g} s" if now - self._began > LAST * limit else ""

    def _sample(self, now: float) -> None:
        spent, is_unserved = self._look()
        since = now - self._sampled
        used = 0.0 if self._spent is None else max(0.0, spent - self._spent)
        self.computed += used
        # The first sample has nothing to compare with, so the thread states decide.
        if not is_unserved and used < IDLE * since:
            self.idle += since
        self._sampled, self._spent = now, spent


def look_at(pid: int) -> Look:
    """Look at the process *pid* and those that it started; nothing is left of one that ended."""
    spent, is_unserved = 0.0, False
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                times = each.cpu_times()
                spent += times.user + times.system
                is_unserved = is_unserved or any(state in UNSERVED for state in _states(each))
    return spent, is_unserved


def _states(process: psutil.Process) -> Iterator[str]:
    """Yield the state of each thread; only that of the process where the system tells no more."""
    folder = TASKS / str(process.pid) / "task"
    if not folder.is_dir():
        yield "R" if process.status() == psutil.STATUS_RUNNING else "S"
        return
    for task in folder.iterdir():
        with suppress(OSError):  # a thread that has ended
            # The state follows the name, which may contain spaces and parentheses.
            yield (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
