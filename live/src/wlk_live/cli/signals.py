"""Defer the end of a run by a signal until committed text is written."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

from wlk_core.cli.signals import SIGNALS, raise_received

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.cli.signals import SignalReceived

# Signals are held from when audio is given to the engine until everything that the engine committed
# is written, because a word could be lost in between.  An engine or a disk may hang, so a held
# signal is raised after five seconds, wherever the program is then.
_POLL_SECONDS = 0.2  # between two looks for signals, while other threads work
_MAX_HOLD_SECONDS = 5  # `docker stop` kills 10 s after SIGTERM


def hold_signals() -> None:
    """Defer signals from here on."""
    SIGNALS.deliver = _defer


def release_signals() -> None:
    """Let signals raise again; raise SignalReceived if one came before."""
    SIGNALS.deliver = raise_received
    if SIGNALS.received is not None:
        if hasattr(signal, "alarm"):  # absent on Windows
            signal.alarm(0)
        raise SIGNALS.received


def _defer(received: SignalReceived) -> None:
    def give_up(*_: object) -> None:
        if SIGNALS.received is received and SIGNALS.deliver is _defer:
            raise received

    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(_MAX_HOLD_SECONDS)


class MainThread:
    """Signals for a run in the main thread, where they are raised."""

    def hold(self) -> None:
        """Defer signals from here on."""
        hold_signals()

    def release(self) -> None:
        """Raise a signal that came before, and let others raise."""
        release_signals()


class Threads:
    """
    Threads that do the same work, and the signal or error that ends all of them.

    Signals are raised in the main thread only, which passes them on: a run in one of the threads
    ends where it would release signals.
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def hold(self) -> None:
        """Do nothing: no signal interrupts a thread."""

    def release(self) -> None:
        """Raise what ended the main thread or another thread."""
        if self._error is not None:
            raise self._error

    def run(self, work: Callable[[], object], count: int) -> None:
        """Do *work* in *count* threads; raise the signal, or the error of one, that ended them."""
        # Events, because a signal that is raised in `Thread.join` marks a running thread as ended
        # (Python 3.11 and 3.12).
        ends: list[threading.Event] = []
        try:
            release_signals()
            for _ in range(count):
                end = threading.Event()
                # It cannot keep the process from ending, as an engine can hang.
                threading.Thread(target=self._try, args=(work, end), daemon=True).start()
                ends.append(end)
            for end in ends:
                while not end.wait(_POLL_SECONDS):  # an endless wait may not wake up for a signal
                    pass
        except BaseException as error:
            hold_signals()
            self._error = error
            due = time.monotonic() + _MAX_HOLD_SECONDS
            for end in ends:
                end.wait(max(0.0, due - time.monotonic()))
            raise
        self.release()

    def _try(self, work: Callable[[], object], end: threading.Event) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 -- raised by `run`
            self._error = self._error or error
        finally:
            end.set()
