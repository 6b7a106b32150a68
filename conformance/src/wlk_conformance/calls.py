"""Record the calls of a backend, what they returned, and what must not escape from them."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, nullcontext
import mmap
import os
import reprlib
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core import Emission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = [
    "LIMIT",
    "CallLog",
    "CallRecord",
    "Calls",
    "Escaped",
    "GuardedProcessor",
    "ThreadedCall",
    "while_held",
]

RECORD, COPY = slice(0, 256), slice(256, 512)  # bytes: of the call that runs, of a forked copy
LINES = 14  # calls kept, because the last ones before a failure explain most
TEXT = 200  # characters shown of the tokens of one emission
LIMIT = 30.0  # seconds: a held call that has not begun or ended by then is stuck


class Escaped(Exception):  # noqa: N818 -- an outcome of a call
    """
    A call raised what ends a program, such as SystemExit or KeyboardInterrupt; that is its cause.

    It is an Exception, so that the call fails like any other and the program goes on.
    """


@attrs.frozen
class CallRecord:
    """
    The call that ran last in a process.

    `action` is its number in the session that is played, from 1; 0 outside of one.
    """

    moves: int
    action: int = 0
    call: str = ""
    stream: str = ""

    def __str__(self) -> str:
        """Return the call in words."""
        where = f" of {self.stream}" if self.stream else ""
        number = f", action {self.action} of the session" if self.action else ""
        return f"{self.call}{where}{number}"

    @classmethod
    def read(cls, path: Path) -> CallRecord:
        """Return what the process with the record *path* wrote, whatever has become of it."""
        try:
            moves, action, call, stream = _fields(path.read_bytes()[RECORD])
            return cls(int(moves), int(action), call, stream)
        except (OSError, ValueError):  # it has not begun
            return cls(0)


class Calls:
    """
    The calls of a backend that run in this process, and a record of them that outlives it.

    The record is memory, shared with the file *path* and with forked copies of the process, because
    a call may end the process.  Any thread may call.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.action = 0  #: the number of the action of a session that is done
        self._pid = os.getpid()
        self._memory = _memory(path)
        self._moves = 0
        self._open: dict[int, tuple[str, str, int]] = {}
        self._numbers = 0
        self._lock = threading.Lock()

    @contextmanager
    def making(self, call: str, stream: str = "") -> Iterator[None]:
        """
        Record a call of the backend while it runs.

        A forked copy of the process in which the call returns ends here, because it would go on as
        a second suite.

        Raises:
            Escaped: the call raised something other than an Exception.

        """
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._open[number] = (call, stream, self.action)
            self._write()
        try:
            yield
        except BaseException as error:
            # Python raises Ctrl-C in the main thread alone.
            is_main = threading.current_thread() is threading.main_thread()
            if isinstance(error, Exception) or (is_main and isinstance(error, KeyboardInterrupt)):
                raise
            where = f" of {stream}" if stream else ""
            raised = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise Escaped(f"{call}{where} raised {raised}") from error
        finally:
            self.end_copy(call, stream)
            with self._lock:
                del self._open[number]
                self._write()

    def end_copy(self, call: str, stream: str = "") -> None:
        """End this process, and leave a note of *call*, if it is a forked copy of the suite."""
        if os.getpid() != self._pid:
            self._note(COPY, call, stream)
            os._exit(0)

    def take_copies(self) -> str:
        """Return the call that also returned in a forked copy since the last time, or nothing."""
        returned = " of ".join(filter(None, _fields(self._memory[COPY])))
        self._note(COPY)
        return returned

    def _write(self) -> None:
        """Write the call that began last and has not ended."""
        self._moves += 1
        call, stream, action = next(reversed(self._open.values()), ("", "", 0))
        self._note(RECORD, str(self._moves), str(action), call, stream)

    def _note(self, where: slice, *fields: str) -> None:
        size = where.stop - where.start
        self._memory[where] = "\t".join(fields).encode()[:size].ljust(size, b"\0")


@attrs.define
class CallLog:
    """The last calls of one stream and their results, printed with a failure."""

    name: str
    opened_with: str = ""
    lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=LINES), init=False)
    calls: int = attrs.field(default=0, init=False)

    def note(self, line: str) -> None:
        """Add a line."""
        self.calls += 1
        self.lines.append(f"  .{line}")

    def __str__(self) -> str:
        """Return the lines, with the number of those that were dropped."""
        dropped = self.calls - len(self.lines)
        head = [f"... {dropped} calls before ..."] if dropped else []
        return "\n".join([f"{self.name}({self.opened_with})", *head, *self.lines])


class GuardedProcessor:
    """
    An online processor whose calls and attributes are recorded, and raise Exceptions only.

    Its calls are noted in *log* as well, if there is one.
    """

    def __init__(
        self, processor: Any, calls: Calls, stream: str, log: CallLog | None = None
    ) -> None:
        self._processor = processor
        self._calls = calls
        self._stream = stream
        self._log = log

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the processor; a method is recorded when it is called."""
        if callable(getattr(type(self._processor), name, None)):
            value = getattr(self._processor, name)  # a method: nothing of the backend runs yet
        else:
            with self._calls.making(name, self._stream):
                value = getattr(self._processor, name)
        if name.startswith("_") or not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            is_last = name == "process_iter" and any((*args, *kwargs.values()))
            try:
                with self._calls.making("is_last" if is_last else name, self._stream):
                    result = value(*args, **kwargs)
            except Exception as error:
                self._note(name, args, kwargs, f" raised {type(error).__name__}: {error}")
                raise
            if name != "get_buffer":
                self._note(name, args, kwargs, result)
            return result

        return call

    def _note(self, name: str, args: Any, kwargs: Any, result: object) -> None:
        if self._log is None:
            return
        named = (f"{key}={_short(value)}" for key, value in kwargs.items())
        text = result if isinstance(result, str) else ""  # the exception
        if isinstance(result, Emission):
            words = (f"{t.text!r}@{t.start:.2f}-{t.end:.2f}" for t in result.committed)
            times = f"{result.processed_up_to:.3f}, stable {result.stable_up_to:.3f}"
            text = f" -> [{' '.join(words)[:TEXT]}] up to {times}"
        elif result is not None and not text:
            text = f" -> {result!r}"
        self._log.note(f"{name}({', '.join([*map(_short, args), *named])}){text}")


class ThreadedCall:
    """
    Make a call on a new daemon thread, from now on.

    What it raises is kept, because an error that leaves a thread is printed and lost.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.error: BaseException | None = None  #: what the call raised
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, limit: float | None = None) -> bool:
        """Wait for the end of the call, *limit* seconds at most; return whether it has ended."""
        self._thread.join(limit)
        return not self._thread.is_alive()

    def raise_error(self) -> None:
        """Raise what the call raised."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 -- the thread that waits raises or reports it
            self.error = error


def while_held(
    call: Callable[[], object],
    act: Callable[[], None],
    held: Callable[[Callable[[], None]], AbstractContextManager[None]] | None,
) -> ThreadedCall:
    """
    Make *call* on a new thread, and *act* on this one while the engine is *held*.

    Where it cannot be held, *act* follows as soon as the call was requested: it then overlaps the
    call if it can.
    """
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(LIMIT)

    def make() -> None:
        if held is None:
            begun.set()
        try:
            call()
        finally:
            begun.set()

    with nullcontext() if held is None else held(wait):
        calling = ThreadedCall(make)
        try:
            begun.wait(LIMIT)
            act()
        finally:
            go_on.set()
            calling.wait(LIMIT)
    return calling


def _memory(path: Path | None) -> mmap.mmap:
    """Return memory that is shared with forked copies, and with the file *path*."""
    if path is None:
        return mmap.mmap(-1, COPY.stop)
    path.write_bytes(bytes(COPY.stop))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), COPY.stop)


def _fields(text: bytes) -> list[str]:
    return text.rstrip(b"\0").decode(errors="replace").split("\t")


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return reprlib.repr(value)  # a list of samples in full would hide the failure
