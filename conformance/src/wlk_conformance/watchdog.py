"""Rules run beside the caller, on a thread that can be given up when a backend hangs."""

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
    """A job did not come to an end; the message is where it stands."""


@attrs.define
class _Job:
    run: Callable[[], None]
    done: threading.Event = attrs.field(factory=threading.Event)
    error: BaseException | None = None


class Worker:
    """
    One thread that does one job after another; the caller waits, with a limit.

    A thread cannot be killed.  After `Hung` the thread is left behind (it is a daemon) and the
    worker is of no more use.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._touched = monotonic()

    def touch(self) -> None:
        """Say that a call has returned: the limit counts from here."""
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
        given = _Job(job)
        self.touch()
        deadline = monotonic() + PATIENCE * limit
        self._jobs.put(given)
        while not given.done.wait(max(0.0, min(self._touched + limit, deadline) - monotonic())):
            if monotonic() >= min(self._touched + limit, deadline):
                raise Hung(self._where())
        if given.error is not None:
            raise given.error

    def close(self) -> None:
        """End the thread when it has nothing to do."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job.run()
            except BaseException as error:  # noqa: BLE001 -- handed to the caller's thread
                job.error = error
            job.done.set()

    def _where(self) -> str:
        ident = self._thread.ident if self._thread else None
        frame = sys._current_frames().get(ident or 0)  # noqa: SLF001 -- documented for debuggers
        return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else "the thread ended"
