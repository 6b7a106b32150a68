"""Defer the end of a run by a signal until committed text is written."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from wlk_core.cli.signals import SIGNALS, raise_received

if TYPE_CHECKING:
    from wlk_core.cli.signals import SignalReceived

# Signals are held from when audio is given to the engine until everything that the engine committed
# is written, because a word could be lost in between.  An engine or a disk may hang, so a held
# signal is raised after five seconds, wherever the program is then.
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
