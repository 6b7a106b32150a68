"""Tell a call or process that hangs from one that a loaded machine keeps waiting."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
import os
from pathlib import Path
import threading
from time import monotonic, thread_time
from typing import TYPE_CHECKING

import attrs
import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Times the limit: wall time after which a call counts as hung whatever the machine was doing.
LAST = 10
SAMPLES = 10  # taken at least within the limit, because each reads every process of the machine
LONGEST = 1.0  # seconds between two samples
#: States of a thread that waits for the machine: for a processor, or for a page or a file.
UNSERVED = frozenset("RD")
TASKS = Path("/proc")

#: Seconds of processor time so far, and whether a thread waits for the machine.
Look = tuple[float, bool]


class Stall:
    """
    The time since a process last made progress, without that in which the machine kept it waiting.

    Wall time alone would condemn a loaded machine.  A call hangs if it *computed* or was *idle* for
    the limit; idle means that no thread asked for a processor.
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
        if self.computed + self.idle > limit:
            return f"{limit:g} s of processor time" if self.computed > self.idle else f"{limit:g} s"
        return f"{LAST * limit:g} s" if now - self._began > LAST * limit else ""

    def _sample(self, now: float) -> None:
        spent, is_unserved = self._look()
        since = now - self._sampled
        # The first sample has nothing to compare with, so the thread states decide.
        used = 0.0 if self._spent is None else max(0.0, spent - self._spent)
        used = min(used, since)  # an engine on 16 processors spends 16 s in a second
        self.computed += used
        if not is_unserved:
            self.idle += since - used
        self._sampled, self._spent = now, spent


def ends_in_time(
    limit: float, ended: Callable[[float], bool], *, look: Callable[[], Look] | None = None
) -> bool:
    """
    Wait until *ended*, which waits for the seconds that it is given; False after a hang of *limit*.

    The hang is that of this process, or of the one that *look* looks at.
    """
    stall = Stall(look or partial(look_at, os.getpid()))
    while not ended(min(LONGEST, limit / SAMPLES)):
        if stall.hang(limit):
            return ended(0.0)
    return True


def has_ended(thread: threading.Thread, seconds: float) -> bool:
    """Wait at most *seconds* for *thread*; return whether it has ended."""
    thread.join(seconds)
    return not thread.is_alive()


@attrs.define
class Timed:
    """Whether what was done within `timed` kept its limit, known when it has ended."""

    is_in_time: bool = True


@contextmanager
def timed(limit: float) -> Iterator[Timed]:
    """Watch from a thread whether this process hangs for *limit* before the context ends."""
    result, done = Timed(), threading.Event()

    def watch() -> None:
        result.is_in_time = ends_in_time(limit, done.wait)

    watcher = threading.Thread(target=watch, name="wlk-conformance-watcher", daemon=True)
    watcher.start()
    try:
        yield result
    finally:
        done.set()
        watcher.join()


def look_at(pid: int) -> Look:
    """
    Look at the process *pid* and those that it started; nothing is left of one that ended.

    Of this process the calling thread is left out, because it only watches.
    """
    spent, is_unserved = -thread_time() if pid == os.getpid() else 0.0, False
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                times = each.cpu_times()
                spent += times.user + times.system
                is_unserved = is_unserved or any(state in UNSERVED for state in _states(each))
    return max(0.0, spent), is_unserved


def _states(process: psutil.Process) -> Iterator[str]:
    """Yield the state of each thread; only that of the process where the system tells no more."""
    folder = TASKS / str(process.pid) / "task"
    if not folder.is_dir():
        yield "R" if process.status() == psutil.STATUS_RUNNING else "S"
        return
    watching = str(threading.get_native_id())
    for task in folder.iterdir():
        if task.name == watching:
            continue
        with suppress(OSError):  # a thread that has ended
            # The state follows the name, which may contain spaces and parentheses.
            yield (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
