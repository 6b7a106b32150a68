"""Record each call of a backend, and keep SystemExit, forks and hangs from ending the suite."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, wait
import contextlib
from contextlib import contextmanager, nullcontext
import mmap
import os
from pathlib import Path
import reprlib
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_conformance.stalls import ends_in_time
from wlk_core import Emission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_RUNNING, _FORKED = slice(0, 256), slice(256, 512)  # bytes: the running call, one in a forked copy
_MAX_LINES = 14  # calls kept, because the last ones before a failure explain most
_INNERMOST = 3  # functions shown of a call that does not end
_WAITING = {threading.__file__, contextlib.__file__}  # their frames say nothing about a backend
_MAX_CHARS = 200  # characters shown of the tokens of one emission
# Seconds of the process's own time, see `stalls`: a loaded machine is not to blame.
NO_WAIT = 5.0  # within which a call that waits for nothing returns
STUCK = 30.0  # after which a held call that has not begun or ended counts as stuck
#: The rule that a call breaks if it raises without a reason, hangs or ends the process.
RULES_OF_CALLS = {
    "create_processor": "LIFE-01", "warmup": "LIFE-09", "has_backlog": "TIME-03",
    "insert_audio_chunk": "IN-04", "get_buffer": "HYP-01", "process_iter": "IN-05",
    "is_last": "LIFE-07", "start_silence": "SIL-01", "end_silence": "SIL-03",
    "new_speaker": "SPK-01", "finish": "LIFE-02", "reset": "LIFE-06", "close": "LIFE-10",
    "stats": "RES-02",
}  # fmt: skip


class Escaped(Exception):  # noqa: N818 -- an outcome of a call
    """
    A call raised a BaseException such as SystemExit, kept as ``__cause__``.

    This is an Exception, so that the call fails like any other and the suite continues.
    """


@attrs.frozen
class CallRecord:
    """The last call in a process."""

    moves: int  #: number of times that the record changed
    action: int = 0  #: number of the action of a generated session, 0 outside of one
    call: str = ""
    stream: str = ""

    def __str__(self) -> str:
        where = f" of {self.stream}" if self.stream else ""
        number = f", action {self.action} of the session" if self.action else ""
        return f"{self.call}{where}{number}"

    @classmethod
    def read(cls, path: Path) -> CallRecord:
        """Return the record that a process wrote to *path*, even if that process has died."""
        try:
            moves, action, call, stream = _fields(path.read_bytes()[_RUNNING])
            return cls(int(moves), int(action), call, stream)
        except (OSError, ValueError):  # none was recorded, or it was cut at the size of the record
            return cls(0)


class Calls:
    """
    The running calls of a backend, and a record of the last one that outlives this process.

    The record is in memory shared with the file *path* and with forked copies of the process,
    because a call may end the process.  Any thread may call.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.action = 0  #: number of the current action of a generated session, 0 outside of one
        self.known_seconds: set[int] = set()  #: hash of each second of audio fed to any stream
        self._pid = os.getpid()
        if path is None:
            self._memory = mmap.mmap(-1, _FORKED.stop)  # shared with forked copies
        else:
            path.write_bytes(bytes(_FORKED.stop))
            with path.open("r+b") as file:
                self._memory = mmap.mmap(file.fileno(), _FORKED.stop)
        self._moves = 0
        self._running: dict[int, tuple[str, str, int]] = {}
        self._last_number = 0
        self._lock = threading.Lock()

    @contextmanager
    def recorded(self, call: str, stream: str = "") -> Iterator[None]:
        """
        Record a call of the backend while it runs.

        If the call also returns in a forked copy of the process, that copy ends here, because it
        would continue as a second suite.  Anything raised that is not an Exception is Escaped.
        """
        with self._lock:
            self._last_number += 1
            number = self._last_number
            self._running[number] = (call, stream, self.action)
            self._write()
        try:
            yield
        except BaseException as error:
            # Python raises Ctrl-C only in the main thread.
            is_main = threading.current_thread() is threading.main_thread()
            if isinstance(error, Exception) or (is_main and isinstance(error, KeyboardInterrupt)):
                raise
            where = f" of {stream}" if stream else ""
            raised = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise Escaped(f"{call}{where} raised {raised}") from error
        finally:
            self.end_fork(call, stream)
            with self._lock:
                del self._running[number]
                self._write()

    def end_fork(self, call: str, stream: str = "") -> None:
        """Note *call* and end this process if it is a forked copy of the suite."""
        if os.getpid() != self._pid:
            self._note(_FORKED, call, stream)
            os._exit(0)

    def pop_forked_call(self) -> str:
        """Return and forget the call that also returned in a forked copy, "" for none."""
        returned = " of ".join(filter(None, _fields(self._memory[_FORKED])))
        self._note(_FORKED)
        return returned

    def _write(self) -> None:
        """Record the newest call that is still running."""
        self._moves += 1
        call, stream, action = next(reversed(self._running.values()), ("", "", 0))
        self._note(_RUNNING, str(self._moves), str(action), call, stream)

    def _note(self, where: slice, *fields: str) -> None:
        size = where.stop - where.start
        self._memory[where] = "\t".join(fields).encode()[:size].ljust(size, b"\0")


@attrs.define
class CallLog:
    """The last calls of one stream and their results, printed with a failure."""

    name: str
    opened_with: str = ""
    lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=_MAX_LINES), init=False)
    calls: int = attrs.field(default=0, init=False)

    def note(self, name: str, args: tuple[Any, ...], result: object) -> None:
        """Add a line for a call; a *result* that is a string says what it raised."""
        text = result if isinstance(result, str) else ""
        if isinstance(result, Emission):
            words = (f"{t.text!r}@{t.start:.2f}-{t.end:.2f}" for t in result.committed)
            times = f"{result.processed_up_to:.3f}, stable {result.stable_up_to:.3f}"
            text = f" -> [{' '.join(words)[:_MAX_CHARS]}] up to {times}"
        elif result is not None and not text:
            text = f" -> {result!r}"
        self.calls += 1
        self.lines.append(f"  .{name}({', '.join(map(_short, args))}){text}")

    def __str__(self) -> str:
        dropped = self.calls - len(self.lines)
        head = [f"... {dropped} earlier calls ..."] if dropped else []
        return "\n".join([f"{self.name}({self.opened_with})", *head, *self.lines])


class Calling(Future[object]):
    """A call on a new daemon thread, with its result or exception."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.set_result(self._call())
        except BaseException as error:  # noqa: BLE001 -- whoever waits raises or reports it
            self.set_exception(error)

    @property
    def place(self) -> str:
        """Where the call is: its innermost functions, the first one first, and the line."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 -- documented
        stack = [] if frame is None else traceback.extract_stack(frame)
        inner = [each for each in stack if each.filename not in _WAITING][-_INNERMOST:]
        if not inner:
            return "a thread that is starting or ending"
        names = " > ".join(each.name for each in inner)
        return f"{names} ({Path(inner[-1].filename).name}:{inner[-1].lineno})"


def in_thread(call: Callable[[], object]) -> Calling:
    """Run *call* on a new daemon thread; the future has its result or exception."""
    return Calling(call)


def ends_within(limit: float, *calls: Future[object]) -> bool:
    """Wait for *calls* until all have ended or this process hangs for *limit* seconds."""
    return ends_in_time(limit, lambda seconds: not wait(calls, seconds).not_done)


def while_held(
    call: Callable[[], object],
    act: Callable[[], None],
    held: Callable[[Callable[[], None]], AbstractContextManager[None]] | None,
) -> Calling:
    """Run *call* in a thread; while its engine call is *held*, if it can be, *act* in this one."""
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        ends_in_time(STUCK, go_on.wait)

    def run() -> None:
        if held is None:
            begun.set()
        call()

    with nullcontext() if held is None else held(hold):
        calling = in_thread(run)
        calling.add_done_callback(lambda _: begun.set())  # if it does not call the engine
        try:
            ends_in_time(STUCK, begun.wait)
            act()
        finally:
            go_on.set()
            ends_within(STUCK, calling)
    return calling


def _fields(text: bytes) -> list[str]:
    return text.rstrip(b"\0").decode(errors="replace").split("\t")


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return reprlib.repr(value)  # a list of samples in full would hide the failure
