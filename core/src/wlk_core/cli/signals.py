"""Signal handling that defers shutdown until committed text is written."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

# Sent by Ctrl-C; `docker stop` or systemd; a closing terminal; Ctrl-\.  Windows has the first two.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_MAX_HOLD_SECONDS = 5  # `docker stop` kills 10 s after SIGTERM
_alarm = getattr(signal, "alarm", lambda _seconds: None)  # absent on Windows


class SignalReceived(KeyboardInterrupt):
    """A signal ends this run; `number` is the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.status = 128 + number  # as shells report it


class DeferredSignals:
    """Raise SignalReceived on a signal, at once or, if signals are held, when they are released."""

    # Signals are held from when audio is given to the engine until everything that the engine
    # committed is written, because a word could be lost in between.  An engine or a disk may hang,
    # so a held signal is raised after five seconds, wherever the program is then.

    def __init__(self) -> None:
        self._number: int | None = None
        self._is_held = False

    def install(self) -> None:
        """Handle the signals that nothing else handles and that this process does not ignore."""
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            usual = (signal.SIG_DFL, signal.default_int_handler)
            if number is not None and signal.getsignal(number) in usual:
                signal.signal(number, self._receive)
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, self._give_up)

    def hold(self) -> None:
        """Hold signals from here on."""
        self._is_held = True

    def release(self) -> None:
        """Let signals raise again; raise SignalReceived if one came while they were held."""
        self._is_held = False
        if self._number is not None:
            _alarm(0)
            raise SignalReceived(self._number)

    def reset(self) -> None:
        """Forget a signal that was received, and let signals raise again."""
        self._number, self._is_held = None, False

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        # Only the first counts: systemd sends two, a closing terminal can, and the second would
        # interrupt the writing.
        if self._number is not None:
            return
        self._number = number
        # If the run does not end, Ctrl-\ kills it at once from now on.
        if hasattr(signal, "SIGQUIT") and signal.getsignal(signal.SIGQUIT) == self._receive:
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        if not self._is_held:
            raise SignalReceived(number)
        _alarm(_MAX_HOLD_SECONDS)

    def _give_up(self, _number: int, _frame: FrameType | None) -> None:
        if self._number is not None and self._is_held:
            raise SignalReceived(self._number)


SIGNALS = DeferredSignals()  #: one per process, as signal handlers are
