"""A wlk-serve of another environment: runs as long as its backend, again after crash or hang."""

from __future__ import annotations

from collections import deque
import logging
import os
import shlex
import threading
import time
from typing import TYPE_CHECKING

from wlk_core.plugins import BackendUnavailable, ModelNotFoundError
from wlk_realtime.realtime.address import Address
from wlk_realtime.realtime.child_process import KEY_VARIABLE, ChildProcess
from wlk_realtime.realtime.errors import ServerAwayError
from wlk_realtime.realtime.liveness import answers
from wlk_realtime.realtime.server import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_realtime.realtime.child_process import ChildCommand
    from wlk_realtime.realtime.server import Source

__all__ = ["Child", "start_children"]

_LOGGER = logging.getLogger(__name__)

_MOST_CRASHES, _CRASH_SECONDS = 5, 600.0  # more within this time, and it is not started again
_FIRST_PAUSE = 0.1  # seconds before it is started again; doubled with each of those crashes
_END_SECONDS = 5.0  # for an engine call that runs, before the process is killed
_REPORT_SECONDS = 0.5  # between the end of its sockets and the report of its end
_ANSWER_SECONDS = 5.0  # for a sign of life, after a call that got no answer in its own time


class Child:
    """
    A server of another environment; any thread may use it.

    It is started at once, in the background, on a port and with a key that nothing else knows.
    Where it ends by itself, or no longer answers, it is started again, a few times.  It ends with
    `close`, or with this process.

    Args:
        command: what it serves.
        start_seconds: how long a start may last, the load of the model included.

    """

    key_variable = KEY_VARIABLE

    def __init__(self, command: ChildCommand, *, start_seconds: float) -> None:
        self.name = command.name
        self._command = command
        self._start_seconds = start_seconds
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._process: ChildProcess | None = None
        self._endpoint: Endpoint | None = None
        self._ending = "is starting"
        self._crashes: deque[float] = deque(maxlen=_MOST_CRASHES)
        self._is_checked = False  # by a thread that waits for a sign of life
        self._alive_until = -1.0  # of the monotonic clock: no further check before
        self._lacks_model = False
        self._is_over = False  # it is not started again
        self._thread = threading.Thread(
            target=self._supervise, name="wlk-realtime-supervisor", daemon=True
        )
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """The number of the running process, None where none runs."""
        with self._changed:
            return None if self._process is None else self._process.id

    def wait_until_ready(self) -> None:
        """
        Return when it takes sessions.

        Raises:
            ModelNotFoundError: its model cannot be found there.
            BackendUnavailable: it cannot be started, with its own reason.

        """
        with self._changed:
            self._changed.wait_for(lambda: self._endpoint is not None or self._is_over)
            if self._endpoint is None:
                kind = ModelNotFoundError if self._lacks_model else BackendUnavailable
                raise kind(f"realtime: {self.name} {self._ending}")

    def endpoint(self) -> Endpoint:
        """
        Return where it listens now.

        Raises:
            ServerAwayError: it is being started again, or too many starts have failed.

        """
        with self._changed:
            if self._endpoint is None:
                raise self._away()
            return self._endpoint

    def suspect(self, endpoint: Endpoint) -> None:
        """
        Check in the background whether it still answers at *endpoint*; return at once.

        A process that does not is killed and started again, because it may hang for ever.
        """
        with self._changed:
            process = self._process
            is_known = self._is_checked or time.monotonic() < self._alive_until
            if process is None or is_known or self._endpoint is not endpoint:
                return
            threading.Thread(
                target=self._check,
                args=(endpoint, process),
                name="wlk-realtime-check",
                daemon=True,
            ).start()
            self._is_checked = True

    def diagnosed(self, error: Exception, endpoint: Endpoint) -> Exception:
        """Return what *error* of a connection means: a crash or a hang if it was one; may wait."""
        if isinstance(error, ServerAwayError):
            return error
        with self._changed:
            if not isinstance(error, TimeoutError):
                self._changed.wait_for(lambda: self._endpoint is not endpoint, _REPORT_SECONDS)
            self.suspect(endpoint)
            self._changed.wait_for(lambda: self._endpoint is not endpoint or not self._is_checked)
            return error if self._endpoint is endpoint else self._away()

    def close(self) -> None:
        """End it; may be called again, and does nothing in a fork."""
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._is_over = True
            self._endpoint = None
            self._ending = "was closed"
            process = self._process
            self._changed.notify_all()
        if process is not None:
            process.end()
        if threading.current_thread() is self._thread:
            return  # the last reference was lost there
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive() and process is not None:
            process.kill()
            self._thread.join(_END_SECONDS)

    def _check(self, endpoint: Endpoint, process: ChildProcess) -> None:
        """Kill *process* unless it answers at *endpoint*; bounds its own time."""
        try:
            if answers(endpoint, timeout=_ANSWER_SECONDS):
                self._alive_until = time.monotonic() + _ANSWER_SECONDS
                return
            process.kill(f"it did not answer for {_ANSWER_SECONDS:g} s")
            with self._changed:  # bounded, because a driver of hardware may delay even its end
                self._changed.wait_for(lambda: self._endpoint is not endpoint, _END_SECONDS)
        finally:
            with self._changed:
                self._is_checked = False
                self._changed.notify_all()

    def _away(self) -> ServerAwayError:
        return ServerAwayError(self._ending, is_over=self._is_over)

    def _supervise(self) -> None:
        while (process := self._start()) is not None:
            ending = self._live(process)
            with self._changed:
                was_ready, self._endpoint, self._process = self._endpoint is not None, None, None
                if self._is_over:
                    return
                self._lacks_model = process.lacks_model
                self._count(ending, was_ready=was_ready)
                self._changed.notify_all()
                pause = _FIRST_PAUSE * 2 ** (len(self._crashes) - 1)
                self._changed.wait_for(lambda: self._is_over, pause)

    def _start(self) -> ChildProcess | None:
        """Start a process, None where it is over."""
        with self._changed:
            if self._is_over:
                return None
            try:
                self._process = ChildProcess(self._command)
            except OSError as error:
                self._is_over = True
                self._ending = (
                    f"cannot be run: {error.strerror or error}; expected option python as the "
                    "Python of another environment, such as /path/to/venv/bin/python"
                )
                self._changed.notify_all()
            return self._process

    def _live(self, process: ChildProcess) -> str:
        """Return how *process* ended, when it has."""
        port = process.wait_for_port(self._start_seconds)
        if port is None:
            process.kill()
            return process.wait()
        endpoint = Endpoint(
            address=Address(url=f"ws://127.0.0.1:{port}/v1/realtime"), key=process.key
        )
        with self._changed:
            if not self._is_over:
                self._endpoint = endpoint
            self._changed.notify_all()
        _LOGGER.info("%s serves at port %d, process %d", self.name, port, process.id)
        return process.wait()

    def _count(self, ending: str, *, was_ready: bool) -> None:
        """Decide whether to start again: not after a first start that failed."""
        now = time.monotonic()
        is_first = not was_ready and not self._crashes
        is_often = len(self._crashes) == _MOST_CRASHES and now - self._crashes[0] < _CRASH_SECONDS
        while self._crashes and now - self._crashes[0] >= _CRASH_SECONDS:
            self._crashes.popleft()
        self._crashes.append(now)
        self._is_over = is_first or is_often
        if is_first:
            python = shlex.quote(str(self._command.python))
            self._ending = f"did not start ({ending}); see: {python} -m wlk_core backends"
        elif is_often:
            self._ending = (
                f"crashed {_MOST_CRASHES + 1} times in {_CRASH_SECONDS / 60:g} minutes ({ending})"
            )
        else:
            self._ending = f"crashed ({ending}) and is started again"
        if not is_first:
            _LOGGER.warning("%s %s", self.name, self._ending)


def start_children(commands: Iterable[ChildCommand], *, start_seconds: float) -> list[Source]:
    """
    Start a server for each of *commands*, at the same time, and return them when all are ready.

    Raises:
        ModelNotFoundError, BackendUnavailable: one does not start; the others are ended.

    """
    children = [Child(command, start_seconds=start_seconds) for command in commands]
    try:
        for child in children:
            child.wait_until_ready()
    except BaseException:
        for child in children:
            child.close()
        raise
    return list(children)
