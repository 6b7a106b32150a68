"""One run of a wlk-serve of another environment, as a child of this process."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
import re
import secrets
import shlex
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

import attrs

from wlk_core.environments import environment_elsewhere, find_pythons
from wlk_core.plugins import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

__all__ = ["KEY_VARIABLE", "ChildCommand", "ChildProcess", "commands_of"]

KEY_VARIABLE = "WLK_CHILD_KEY"
_PROGRAM = "wlk-serve: "
_SESSION = f"{_PROGRAM}session "  # a line for each that ends, which is no reason
_OWN_NAME = "realtime"  # a child of that would start children for ever
_READY = re.compile(r"ready on http://\S+:(\d+) ")
_NO_MODEL = 3  # exit status of wlk-serve
_NO_LIMIT = str(10**9)
_LINES, _LINE_BYTES = 20, 4096  # of its messages that are kept
_SHOWN_LINES = 3  # in an error, where no line is from wlk-serve


@attrs.frozen(kw_only=True)
class ChildCommand:
    """
    What a child serves.

    Attributes:
        python: the Python of its environment.
        backend: the name of a backend that is installed there.
        model: the model, None for the backend's own default.
        options: options of the backend, each KEY=VALUE.

    """

    python: Path
    backend: str
    model: str | None = None
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The child as messages name it."""
        return f"{self.backend} of {self.python}"

    @property
    def arguments(self) -> list[str]:
        """The command line, which contains no secret."""
        command = [str(self.python), "-m", "wlk_serve", "--end-with-stdin"]
        command += ["--host", "127.0.0.1", "--port", "0", "--api-key-env", KEY_VARIABLE]
        command += ["--drain-seconds", "0", "--max-sessions", _NO_LIMIT]
        command += ["--max-session-seconds", _NO_LIMIT, "--idle-seconds", _NO_LIMIT]
        command += ["--language", "auto", "--backend", self.backend]
        command += [] if self.model is None else ["--model", self.model]
        for pair in self.options:
            command += ["--option", pair]
        return command


def commands_of(
    pythons: str, backends: str | None, model: str | None, options: str
) -> list[ChildCommand]:
    """
    Return a command for each of *pythons*; texts as users write them.

    Raises:
        OptionError: one is neither a Python nor a virtual environment, there is not one backend for
            all of them or one for each, or *options* are no list of KEY=VALUE.

    """
    try:
        pairs = tuple(shlex.split(options))
    except ValueError as error:
        raise OptionError(
            f"realtime: expected backend_options as KEY=VALUE KEY=VALUE, got {options!r} ({error})"
        ) from None
    try:
        found = find_pythons(pythons)
    except OptionError as error:
        raise OptionError(f"realtime: {error}") from None
    names = [name.strip() for name in (backends or "").split(",")]
    if not all(names) or _OWN_NAME in names or len(names) not in {1, len(found)}:
        raise OptionError(
            f"realtime: expected option backend as the backend that {found[0]} runs, or one for "
            f"each Python, got {backends!r}; those that are installed there: "
            f"{shlex.quote(str(found[0]))} -m wlk_core backends"
        )
    if model is not None and "://" in model:
        raise OptionError(
            f"realtime: option python starts a server, and {model} names another one; leave the "
            "option out, or name a model of the backend there"
        )
    names *= len(found) if len(names) == 1 else 1
    return [
        ChildCommand(python=python, backend=name, model=model, options=pairs)
        for python, name in zip(found, names, strict=True)
    ]


class ChildProcess:
    """
    A process that serves a command with a key of its own.

    It ends when its standard input does, so also when this process is killed.  It is in no process
    group of a terminal, because Ctrl-C first ends the streams of this process.

    Raises:
        OSError: the Python cannot be run.

    """

    def __init__(self, command: ChildCommand) -> None:
        self._command = command
        self.key = secrets.token_urlsafe(32)
        self._process = subprocess.Popen(  # noqa: S603 -- the Python that the user names
            command.arguments,
            env={**environment_elsewhere(), KEY_VARIABLE: self.key},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._port: int | None = None
        self._is_reported = threading.Event()  # ready, or without anything more to read
        self._reader = threading.Thread(target=self._read, name="wlk-realtime-child", daemon=True)
        self._reader.start()

    @property
    def id(self) -> int:
        """The number of the process."""
        return self._process.pid

    def wait_for_port(self, seconds: float) -> int | None:
        """Return the port once it takes sessions; None where it ended or took longer."""
        if not self._is_reported.wait(seconds):
            self._lines.append(f"{_PROGRAM}it was not ready after {seconds:g} s")
        return self._port

    @property
    def lacks_model(self) -> bool:
        """Whether it has ended because its model cannot be found."""
        return self._process.returncode == _NO_MODEL and self._port is None

    def wait(self) -> str:
        """Wait until it has ended; return how, with its last lines, on one line."""
        status = self._process.wait()
        self._reader.join(1.0)  # a process that it started may hold its standard error
        self.end()
        return f"{_ending(status)}: {self._reason()}" if self._lines else _ending(status)

    def end(self) -> None:
        """Let it end, by the end of its standard input."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def kill(self, reason: str | None = None) -> None:
        """End it at once; *reason* is its last line then, unless it has ended by itself."""
        if reason is not None and self._process.poll() is None:
            self._lines.append(f"{_PROGRAM}{reason}")
        self._process.kill()

    def _reason(self) -> str:
        """Return the message of wlk-serve, which is one line, or the last lines of a traceback."""
        lines = list(self._lines)
        own = [line for line in lines if line.startswith(_PROGRAM)]
        if lines[-1] in own or (own and self._port is None):
            return own[-1].removeprefix(_PROGRAM)
        if "No module named wlk_serve" in lines[-1]:
            python = shlex.quote(str(self._command.python))
            return (
                "no wlk-serve is installed there; install it with: "
                f"{python} -m pip install wlk-serve"
            )
        return " / ".join(lines[-_SHOWN_LINES:])

    def _read(self) -> None:
        stream = self._process.stderr
        if stream is None:
            raise AssertionError("unreachable: standard error is a pipe")
        with stream:
            for line in _lines_of(stream):
                ready = _READY.search(line) if self._port is None else None
                if ready:
                    self._port = int(ready[1])
                    self._is_reported.set()
                elif line and not line.startswith(_SESSION):
                    self._lines.append(line)
        self._is_reported.set()


def _lines_of(stream: IO[bytes]) -> Iterator[str]:
    while piece := stream.readline(_LINE_BYTES):
        yield " ".join(piece.decode("utf-8", "replace").split())


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
