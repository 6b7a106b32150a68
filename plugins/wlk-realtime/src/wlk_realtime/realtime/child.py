"""Supervise a local wlk-serve: restart it after a crash or hang."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
import logging
import os
import re
import secrets
import shlex
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import httpx2

from wlk_core.environments import environment_elsewhere
from wlk_core.plugins import BackendUnavailable, ModelNotFoundError
from wlk_realtime.realtime.address import Address, Endpoint
from wlk_realtime.realtime.child_command import KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_realtime.realtime.child_command import ChildCommand

__all__ = ["Child", "ServerAwayError", "start_children"]

_LOGGER = logging.getLogger(__name__)

_MAX_CRASHES, _CRASH_SECONDS = 5, 600.0  # more within this time, and it is not started again
_FIRST_PAUSE = 0.1  # seconds before it is started again; doubled with each of those crashes
_END_SECONDS = 5.0  # for an engine call that runs, before the process is killed
_REPORT_SECONDS = 0.5  # between the end of its sockets and the report of its end
_ANSWER_SECONDS = 5.0  # for a sign of life, after a call that got no answer in its own time

_PROGRAM = "wlk-serve: "
_SESSION = f"{_PROGRAM}session "  # a line for each that ends, which explains nothing
_READY = re.compile(r"ready on http://\S+:(\d+) ")
_NO_MODEL = 3  # exit status of wlk-serve
_MAX_LINES, _MAX_LINE_BYTES = 20, 4096  # of its messages that are kept
_SHOWN_LINES = 3


class ServerAwayError(Exception):
    """
    A server that this process starts is not there now.

    `is_over` where it is not started again.
    """

    def __init__(self, message: str, *, is_over: bool) -> None:
        super().__init__(message)
        self.is_over = is_over


class Child:
    """
    A server of another environment; any thread may use it.

    It is started at once, in the background, on a port and with a key that nothing else knows.
    Where it ends by itself, or no longer answers, it is started again, a few times.  It ends with
    its standard input: with `close`, or with this process, even where that is killed.

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
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)
        self._endpoint: Endpoint | None = None
        self._ending = "is starting"
        self._error: type[Exception] = BackendUnavailable  # of a start that fails
        self._crashes: deque[float] = deque()  # times of the last _CRASH_SECONDS
        self._checking = threading.Lock()
        self._alive_until = -1.0  # of the monotonic clock: no further check before
        self._is_over = False  # it is not started again
        self._thread = threading.Thread(
            target=self._supervise, name="wlk-realtime-supervisor", daemon=True
        )
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """The number of the running process, None where none runs."""
        with self._changed:
            return None if self._process is None else self._process.pid

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
                raise self._error(f"realtime: {self.name} {self._ending}")

    def endpoint(self) -> Endpoint:
        """
        Return where it listens now.

        Raises:
            ServerAwayError: it is being started again, or too many starts have failed.

        """
        with self._changed:
            if self._endpoint is None:
                raise ServerAwayError(self._ending, is_over=self._is_over)
            return self._endpoint

    def explain_failure(self, error: Exception, endpoint: Endpoint) -> Exception:
        """
        Return what *error* of a connection to *endpoint* means: a crash or a hang if it was one.

        A process that does not answer is killed and started again, because it may hang for ever.
        """
        if isinstance(error, ServerAwayError):
            return error
        if not isinstance(error, TimeoutError):
            self._wait_until_left(endpoint, _REPORT_SECONDS)
        with self._checking:  # all streams of a process that hangs come here at the same time
            with self._changed:
                process = self._process if self._endpoint is endpoint else None
            if process is not None and time.monotonic() >= self._alive_until:
                if _answers(endpoint, timeout=_ANSWER_SECONDS):
                    self._alive_until = time.monotonic() + _ANSWER_SECONDS
                else:
                    if process.poll() is None:
                        reason = f"it did not answer for {_ANSWER_SECONDS:g} s"
                        self._lines.append(_PROGRAM + reason)
                    _kill(process)
                    # bounded, because a driver of hardware may delay even its end
                    self._wait_until_left(endpoint, _END_SECONDS)
        with self._changed:
            if self._endpoint is endpoint:
                return error
            return ServerAwayError(self._ending, is_over=self._is_over)

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
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        if threading.current_thread() is self._thread:
            return  # the last reference was lost there
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive() and process is not None:
            _kill(process)
            self._thread.join(_END_SECONDS)

    def _wait_until_left(self, endpoint: Endpoint, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._endpoint is not endpoint, seconds)

    def _supervise(self) -> None:
        while not self._is_over:
            try:
                ending = self._run_until_exit()
            except OSError as error:
                ending = (
                    f"cannot be run: {error.strerror or error}; expected option python as the "
                    "Python of another environment, such as /path/to/venv/bin/python"
                )
                with self._changed:
                    self._is_over, self._ending = True, ending
                    self._changed.notify_all()
                return
            with self._changed:
                was_ready, self._endpoint, self._process = self._endpoint is not None, None, None
                if not self._is_over:
                    self._count_crash(ending, was_ready=was_ready)
                self._changed.notify_all()
                pause = _FIRST_PAUSE * 2 ** max(0, len(self._crashes) - 1)
                self._changed.wait_for(lambda: self._is_over, pause)

    def _run_until_exit(self) -> str:
        """Run one process until it has ended; return how, on one line."""
        self._lines.clear()
        key = secrets.token_urlsafe(32)
        with self._changed:
            if self._is_over:
                return ""
            # A group of its own, because Ctrl-C first ends the streams of this process, and so that
            # no process that it has started holds its standard error after its end.
            process = self._process = subprocess.Popen(  # noqa: S603 -- the Python of the user
                self._command.arguments,
                env={**environment_elsewhere(), KEY_VARIABLE: key},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        late = threading.Timer(self._start_seconds, self._give_up_start, [process])
        late.daemon = True  # so that a program can end while its server starts
        late.start()
        is_ready = False
        with process:
            while piece := process.stderr.readline(_MAX_LINE_BYTES) if process.stderr else b"":
                line = " ".join(piece.decode("utf-8", "replace").split())
                ready = None if is_ready else _READY.search(line)
                if ready:
                    late.cancel()
                    is_ready = True
                    self._serve_at(int(ready[1]), key)
                elif line and not line.startswith(_SESSION):
                    self._lines.append(line)
            late.cancel()
            process.wait()
        if process.returncode == _NO_MODEL and not is_ready:
            self._error = ModelNotFoundError
        return _ending(process.returncode) + self._reason(is_ready=is_ready)

    def _give_up_start(self, process: subprocess.Popen[bytes]) -> None:
        self._lines.append(f"{_PROGRAM}it was not ready after {self._start_seconds:g} s")
        _kill(process)

    def _serve_at(self, port: int, key: str) -> None:
        _LOGGER.info("%s serves at port %d", self.name, port)
        address = Address(url=f"ws://127.0.0.1:{port}/v1/realtime")
        with self._changed:
            if not self._is_over:
                self._endpoint = Endpoint(address=address, key=key)
            self._changed.notify_all()

    def _reason(self, *, is_ready: bool) -> str:
        """Return the message of wlk-serve, which is one line, or the last lines of a traceback."""
        lines = list(self._lines)
        if not lines:
            return ""
        own = [line for line in lines if line.startswith(_PROGRAM)]
        if lines[-1] in own or (own and not is_ready):
            return f": {own[-1].removeprefix(_PROGRAM)}"
        if "No module named wlk_serve" in lines[-1]:
            python = shlex.quote(str(self._command.python))
            return (
                ": no wlk-serve is installed there; install it with: "
                f"{python} -m pip install wlk-serve"
            )
        return f": {' / '.join(lines[-_SHOWN_LINES:])}"

    def _count_crash(self, ending: str, *, was_ready: bool) -> None:
        """Decide whether to start again: not after a first start that failed."""
        now = time.monotonic()
        if not was_ready and not self._crashes:
            self._is_over = True
            python = shlex.quote(str(self._command.python))
            self._ending = f"did not start ({ending}); see: {python} -m wlk_core backends"
            return
        while self._crashes and now - self._crashes[0] >= _CRASH_SECONDS:
            self._crashes.popleft()
        self._crashes.append(now)
        self._is_over = len(self._crashes) > _MAX_CRASHES
        self._ending = (
            f"crashed {_MAX_CRASHES + 1} times in {_CRASH_SECONDS / 60:g} minutes ({ending})"
            if self._is_over
            else f"crashed ({ending}) and is started again"
        )
        _LOGGER.warning("%s %s", self.name, self._ending)


def start_children(commands: Iterable[ChildCommand], *, start_seconds: float) -> list[Child]:
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
    return children


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill *process* and what it has started."""
    if os.name == "nt":
        process.kill()
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def _answers(endpoint: Endpoint, *, timeout: float) -> bool:
    """
    Return whether the server answers `/livez`, as it does however busy its engine is.

    Any status is an answer, because a wlk-serve of an older version may lack the path.
    """
    with suppress(httpx2.HTTPError):
        httpx2.get(f"{endpoint.address.origin}/livez", timeout=timeout, trust_env=False)
        return True
    return False
