"""Call plugins that may never return, in threads that are left behind if they do not."""

from __future__ import annotations

from queue import Empty, SimpleQueue
import threading
import time
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_SECONDS = 10.0  # the first call of a plugin may have to read its data
_SECONDS_PER_TOKEN = 0.3  # on average: people say three words a second
_SLICE_SECONDS = 1.0  # of a wait, so that a process that was frozen has not waited for minutes
# Threads that never came back.  Each of them may keep a core busy, and cost a session the time of
# a call; with this many of them, the calls of all plugins are refused at once.
_MAX_HUNG = 8


@attrs.define
class CallTime:
    """
    The time that the calls of one plugin may take.

    That is 10 s, and 0.3 s more for each token; at most 10 s are kept for later calls.  A call that
    takes longer is left behind, and TimeoutError is raised.

    A thread cannot be ended, and nothing ends a call of C code that holds the interpreter's lock,
    such as the match of a regular expression.
    """

    _clock: Callable[[], float] = time.monotonic
    _seconds: float = _MAX_SECONDS

    def call(self, call: Callable[[], object], *, tokens: int) -> None:
        """Make a *call* that is about a number of *tokens*; raises what it raises."""
        left = self._seconds + tokens * _SECONDS_PER_TOKEN
        thread, began = _take_thread(), self._clock()
        thread.calls.put(call)
        while left > 0:
            seconds = min(_SLICE_SECONDS, left)
            try:
                error = thread.errors.get(timeout=seconds)
            except Empty:
                left, began = left - seconds, self._clock()
                continue
            left -= min(_SLICE_SECONDS, self._clock() - began)
            self._seconds = min(_MAX_SECONDS, left)
            _IDLE.append(thread)
            if error is not None:
                raise error
            return
        _HUNG.append(thread)
        thread.calls.put(None)  # it ends if the call ever does
        raise TimeoutError(
            f"expected an answer within {_MAX_SECONDS:g} s, and within {_SECONDS_PER_TOKEN:g} s "
            "for each token on average"
        )


class _Thread:
    """A thread that makes the calls of one caller at a time."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.errors: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="wlk-plugin", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while (call := self.calls.get()) is not None:
            failure: BaseException | None = None
            try:
                call()
            except BaseException as error:  # noqa: BLE001 -- raised in the thread of the caller
                failure = error
            self.errors.put(failure)
            del call, failure  # an idle thread keeps no session
        _HUNG.remove(self)


# Shared by all sessions, because a call takes microseconds: as many as ever called at a time.
_IDLE: list[_Thread] = []
_HUNG: list[_Thread] = []


def _take_thread() -> _Thread:
    if len(_HUNG) >= _MAX_HUNG:
        raise TimeoutError(f"{len(_HUNG)} calls of plugins have not returned")
    while _IDLE:
        if (thread := _IDLE.pop()).is_alive:  # none is after a fork
            return thread
    return _Thread()
