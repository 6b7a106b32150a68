"""A call on a thread of its own, and what it raised."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ThreadedCall"]


class ThreadedCall:
    """
    Make a call on a new daemon thread, from now on.

    What it raises is kept, because an error that leaves a thread is printed and lost.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """What the call raised; None where it returned or still runs."""
        return self._error

    def wait(self, limit: float | None = None) -> bool:
        """Wait for the end of the call, *limit* seconds at most; return whether it has ended."""
        self._thread.join(limit)
        return not self._thread.is_alive()

    def raise_error(self) -> None:
        """Raise what the call raised."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 -- the thread that waits raises or reports it
            self._error = error
