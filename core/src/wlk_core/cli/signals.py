"""Raise an exception for the first signal that asks this program to end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# Sent by Ctrl-C; `docker stop` or systemd; a closing terminal; Ctrl-\.  Windows has the first two.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


class SignalReceived(KeyboardInterrupt):
    """A signal ends this run; `number` is the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.status = 128 + number  # as shells report it


class Signals:
    """The signal that this process received, delivered by raising it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget a signal that was received, and raise the next one."""
        self.received: SignalReceived | None = None
        self.deliver: Callable[[SignalReceived], None] = raise_received  #: called in the handler

    def install(self) -> None:
        """Handle the signals that nothing else handles and that this process does not ignore."""
        for name in _NAMES:
            number = getattr(signal, name, None)
            usual = (signal.SIG_DFL, signal.default_int_handler)
            if number is not None and signal.getsignal(number) in usual:
                signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        # Only the first counts: systemd sends two, a closing terminal can, and the second would
        # interrupt the writing.
        if self.received is not None:
            return
        self.received = SignalReceived(number)
        # If the run does not end, Ctrl-\ kills it at once from now on.
        if hasattr(signal, "SIGQUIT") and signal.getsignal(signal.SIGQUIT) == self._receive:
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        self.deliver(self.received)


def raise_received(received: SignalReceived) -> None:
    """Raise *received*."""
    raise received


SIGNALS = Signals()  #: one per process, as signal handlers are
