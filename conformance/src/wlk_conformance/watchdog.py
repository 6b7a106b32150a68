"""
A thread that runs the rules and is abandoned when a backend hangs.

pytest-timeout does not serve here: it ends the process or interrupts the main thread, so that the
rules after a hang would have no outcome, and its limit counts from the start of a test.  Here the
limit counts from the last call that returned, because a slow backend is not a hanging one.
"""

from __future__ import annotations

from queue import SimpleQueue
import sys
import threading
from time import monotonic
import traceback
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Hung", "Worker"]

FRAMES = 8  # innermost frames shown of a call that does not return
PATIENCE = 10  # a job whose calls all return may take this many times the limit of one


class Hung(Exception):  # noqa: N818 -- the state of the thread
    """A job did not end; the message is its stack."""


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

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._touched = monotonic()

    def touch(self) -> None:
        """Note that a call has returned, because the limit counts from here."""
        self._touched = monotonic()

    def run(self, job: Callable[[], None], *, limit: float) -> None:
        """
        Run *job* and raise what it raises.

        Raises:
            Hung: nothing was touched for *limit* seconds, or it took PATIENCE times as long.

        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="wlk-conformance", daemon=True)
            self._thread.start()
        entry = _Job(job)
        self.touch()
        deadline = monotonic() + PATIENCE * limit
        self._jobs.put(entry)
        while not entry.done.wait(max(0.0, min(self._touched + limit, deadline) - monotonic())):
            if monotonic() >= min(self._touched + limit, deadline):
                raise Hung(self._stack())
        if entry.error is not None:
            raise entry.error

    def close(self) -> None:
        """End the thread when it has nothing to do."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            try:
                entry.run()
            except BaseException as error:  # noqa: BLE001 -- handed to the caller's thread
                entry.error = error
            entry.done.set()

    def _stack(self) -> str:
        ident = self._thread.ident if self._thread else None
        frame = sys._current_frames().get(ident or 0)  # noqa: SLF001 -- documented for debuggers
        return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else "the thread ended"
