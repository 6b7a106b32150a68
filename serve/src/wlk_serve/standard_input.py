"""The end of the server with the program that started it."""

from __future__ import annotations

from contextlib import suppress
import os
import threading

__all__ = ["end_with_standard_input"]

_PIECE_BYTES = 4096


def end_with_standard_input() -> None:
    """
    End this process, without a drain, when standard input ends.

    A program that holds the other end of the pipe ends the server by closing it.  The system closes
    it too where that program is killed, so that no server stays without an owner.
    """
    threading.Thread(target=_wait, name="wlk-serve-stdin", daemon=True).start()


def _wait() -> None:
    with suppress(OSError):  # a descriptor that is closed has ended
        while os.read(0, _PIECE_BYTES):
            pass
    os._exit(0)  # at once: an engine that runs would keep an orderly exit waiting
