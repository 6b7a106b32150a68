"""Signals of the user, kept apart from what foreign code raises: both may be KeyboardInterrupt."""

from __future__ import annotations

from contextlib import contextmanager
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["user_signals"]

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def user_signals() -> Iterator[list[BaseException]]:
    """
    Run foreign code; yield a list that receives what a signal raises while it runs.

    If the list is not empty, an exception of that code came from the user.  A signal that the code
    swallows is raised again at the end.  Handlers that the code installs are removed then.
    """
    raised: list[BaseException] = []
    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    if threading.current_thread() is threading.main_thread():  # no signal reaches other threads
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            handler = None if number is None else signal.getsignal(number)
            if number is not None and callable(handler):
                handlers[number] = handler
    for number, handler in handlers.items():
        signal.signal(number, _recording(handler, raised))
    try:
        yield raised
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if raised:
            raise raised[0]


def _recording(
    handler: Callable[[int, FrameType | None], object], raised: list[BaseException]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    return handle
