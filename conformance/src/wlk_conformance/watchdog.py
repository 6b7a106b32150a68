"""
A thread that runs the rules and is abandoned when a backend hangs.

pytest-timeout does not serve here: it ends the process or interrupts the main thread, so that the
rules after a hang would have no outcome, and its limit counts from the start of a test.  Here the
limit counts from the last call that returned, because a slow backend is not a hanging one.  Time
in which a thread was ready to run and waited for a processor does not count, because a loaded
machine is not a hanging one either.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
import sys
import threading
from time import monotonic
import traceback
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.calls import Calls, Escaped

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HASTE", "Hung", "Worker"]

FRAMES = 8  # innermost frames shown of a call that does not return
PATIENCE = 10  # a job whose calls all return may take this many times the limit of one
HASTE = 8  # a call that hung before is waited for this part of the limit
LOOKS = 8  # times in a limit that the time is compared with it
THREADS = Path("/proc/self/task")


class Hung(Exception):  # noqa: N818 -- the state of the thread
    """A job did not end within `limit` seconds; the message is its stack."""

    def __init__(self, stack: str, limit: float) -> None:
        super().__init__(stack)
        self.limit = limit


class _Patience:
    """Seconds that passed, without those in which a thread waited for a processor."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._delays = _processor_delays()

    def begin_anew(self, time: float) -> None:
        """Count from the monotonic *time* on, if that is later than before."""
        if time > self._began:
            self._began, self._delays = time, _processor_delays()

    def is_over(self, limit: float) -> bool:
        """Return whether *limit* seconds passed."""
        seconds = monotonic() - self._began
        if seconds < limit:
            return False
        delays = _processor_delays()
        waited = max((delays[name] - self._delays.get(name, 0.0) for name in delays), default=0.0)
        return seconds - waited >= limit


def _processor_delays() -> dict[str, float]:
    """Return how many seconds each thread was ready and did not run; empty where not counted."""
    delays = {}
    for thread in THREADS.iterdir() if THREADS.is_dir() else ():
        with suppress(OSError, IndexError, ValueError):  # it has ended, or the kernel has no counts
            delays[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return delays


@attrs.define
class _Job:
    run: Callable[[], None]
    done: threading.Event = attrs.field(factory=threading.Event)
    error: BaseException | None = None


class Worker:
    """
    One thread that does one job after another; the caller waits, with a limit.

    A thread cannot be killed.  After `Hung` the thread is abandoned (it is a daemon) and the worker
    cannot be used again.
    """

    def __init__(self, calls: Calls | None = None) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._calls = calls or Calls()
        self._touched = monotonic()
        self.hung: frozenset[str] = frozenset()  #: calls that hung in an earlier process

    def touch(self) -> None:
        """Note that a call has returned, because the limit counts from here."""
        self._touched = monotonic()

    def run(self, job: Callable[[], None], *, limit: float) -> None:
        """
        Run *job* and raise what it raises.

        Raises:
            Hung: nothing was touched for *limit* seconds, or it took PATIENCE times as long; both
                without the time in which a thread waited for a processor.

        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="wlk-conformance", daemon=True)
            self._thread.start()
        entry = _Job(job)
        self.touch()
        whole, call = _Patience(), _Patience()
        self._jobs.put(entry)
        of_call = self._limit_now(limit)
        while not entry.done.wait(of_call / LOOKS):
            self._calls.move()
            call.begin_anew(self._touched)
            of_call = self._limit_now(limit)
            if call.is_over(of_call) or whole.is_over(PATIENCE * limit):
                raise Hung(self._stack(), of_call)
        if entry.error is not None:
            raise entry.error

    def _limit_now(self, limit: float) -> float:
        """Return the limit of the call that runs, part of *limit* for one that hung before."""
        return limit / HASTE if self._calls.running.call in self.hung else limit

    def close(self) -> None:
        """End the thread when it has nothing to do."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            try:
                entry.run()
            except Exception as error:  # noqa: BLE001 -- handed to the caller's thread
                entry.error = error
            except BaseException as error:  # noqa: BLE001 -- only the main thread gets Ctrl-C
                entry.error = Escaped(f"{type(error).__name__}: {error}")
                entry.error.__cause__ = error
            self._calls.end_copy("a call")
            entry.done.set()

    def _stack(self) -> str:
        ident = self._thread.ident if self._thread else None
        frame = sys._current_frames().get(ident or 0)  # noqa: SLF001 -- documented for debuggers
        return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else "the thread ended"
