"""Calls of the hub's library, each with a limit on what it waits for and on what it receives."""

from __future__ import annotations

from contextlib import contextmanager
import importlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from wlk_core.models.hub_answers import UnexpectedAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["LibraryError", "Refusal", "watched"]

T = TypeVar("T")

SLOWEST = 10_000  # bytes a second; 80 kbit/s, a line that brings 1 GB in a day
_LIBRARY = "huggingface_hub"
_HOOKS = threading.Lock()  # held while the hooks of a session are exchanged
_LOOK_SECONDS = 0.2  # between two looks at what has arrived
_LAST_SECONDS = 1.0  # for a call that was given up to remove its unfinished file
_FIRST_ERROR = 400  # the lowest HTTP status that is a refusal


@attrs.frozen
class Refusal(Exception):  # noqa: N818 -- an answer, not a defect
    """The hub refuses a request: an HTTP status of 400 or more; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]


class LibraryError(Exception):
    """The hub's library failed with an error of its own, which is the cause of this one."""


def watched(
    call: Callable[[], T],
    *,
    seconds: float,
    most_bytes: int,
    partial_bytes: Callable[[], int] = lambda: 0,
) -> T:
    """
    Return the result of *call*, which runs in a thread of its own.

    Patience is `seconds` at most.  It runs out with the time, and each 10 kB that arrive bring a
    second of it back: a server that sends a byte now and then ends like one that sends none.
    `partial_bytes` returns the size of the unfinished file, which another process may be fetching.
    The library's own time limits hold for a single read, and it waits as long as a server asks.

    Raises:
        TimeoutError: patience has run out.  The call is abandoned: its thread ends with the next
            bytes it receives.
        UnexpectedAnswer: an answer, or the unfinished file, is longer than `most_bytes`.
        Refusal: an answer has a status of 400 or more; its content is not read.
        LibraryError: the call failed with an error other than the system's.

    """
    work = _Work(call, most_bytes)
    thread = threading.Thread(target=work.run, name="wlk-hub", daemon=True)
    thread.start()
    try:
        _wait(work, seconds, most_bytes, partial_bytes)
    except BaseException:
        work.is_abandoned = True
        thread.join(_LAST_SECONDS)
        raise
    if work.failure is None:
        return work.result[0]  # type: ignore[no-any-return]  # what `call` returned
    if isinstance(work.failure, Exception) and not isinstance(work.failure, _PASSED_ON):
        raise LibraryError(str(work.failure)) from work.failure
    raise work.failure


_PASSED_ON = (OSError, Refusal, UnexpectedAnswer)


class _Work:
    """A call in its thread: the thread writes, the thread that waits for it reads."""

    def __init__(self, call: Callable[[], Any], most_bytes: int) -> None:
        self.utils: Any = importlib.import_module("huggingface_hub.utils")  # half a second
        self.call = call
        self.most_bytes = most_bytes
        self.received = 0
        self.is_abandoned = False
        self.is_done = threading.Event()
        self.result: list[Any] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Make the call and keep what comes of it."""
        try:
            with self._hooked():
                self.result.append(self.call())
        except BaseException as failure:  # noqa: BLE001 -- raised again by the thread that waits
            self.failure = failure
        finally:
            self.is_done.set()

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        """Look at every answer that the library receives in this thread."""
        session = self.utils.get_session()
        # httpx has event_hooks, and requests, which earlier releases of the library use, has hooks.
        hooks = getattr(session, "event_hooks", None)
        is_shared = hooks is not None
        hooks = session.hooks if hooks is None else hooks
        thread = threading.get_ident()

        def look(response: Any, *_arguments: Any, **_options: Any) -> None:
            if threading.get_ident() == thread:
                self._look(response)

        # Lists are replaced, because another thread may be going through the old one.
        with _quiet_library(thread):
            with _HOOKS:
                hooks["response"] = [*hooks["response"], look]
            try:
                yield
            finally:
                with _HOOKS:
                    hooks["response"] = [hook for hook in hooks["response"] if hook is not look]
                if not is_shared:
                    session.close()  # a session of requests belongs to this thread alone

    def _look(self, response: Any) -> None:
        self._check()
        if response.status_code >= _FIRST_ERROR:
            headers = {name.lower(): value for name, value in response.headers.items()}
            response.close()  # requests leaves an answer open whose hook fails
            raise Refusal(response.status_code, headers)
        for name in ("iter_raw", "iter_bytes", "iter_content"):
            if pieces := getattr(response, name, None):
                setattr(response, name, self._counted(pieces, is_raw=name != "iter_bytes"))

    def _counted(
        self, pieces: Callable[..., Iterator[bytes]], *, is_raw: bool
    ) -> Callable[..., Iterator[bytes]]:
        """Return a function that yields the same pieces and ends where too many bytes came."""

        def counted(*arguments: Any, **options: Any) -> Iterator[bytes]:
            length = 0
            for piece in pieces(*arguments, **options):
                self._check()
                self.received += len(piece) if is_raw else 0
                length += len(piece)
                if length > self.most_bytes:
                    raise too_long(self.most_bytes)
                yield piece

        return counted

    def _check(self) -> None:
        if self.is_abandoned:
            raise TimeoutError


@contextmanager
def _quiet_library(thread: int) -> Iterator[None]:
    """
    Drop what the library logs in a thread: warnings about failures that are retried or raised.

    They hold text of the server.  A verbosity that the user has raised shows all of it.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return record.thread != thread

    root = logging.getLogger(_LIBRARY)
    names = [name for name in logging.root.manager.loggerDict if name.startswith(f"{_LIBRARY}.")]
    is_quiet = root.getEffectiveLevel() >= logging.WARNING
    loggers = [root, *map(logging.getLogger, names)] if is_quiet else []
    for logger in loggers:
        logger.addFilter(is_other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_other)


def _wait(work: _Work, seconds: float, most_bytes: int, partial_bytes: Callable[[], int]) -> None:
    patience, then, arrived = seconds, time.monotonic(), (0, partial_bytes())
    while not work.is_done.wait(min(_LOOK_SECONDS, seconds / 10)):
        now, arriving = time.monotonic(), (work.received, partial_bytes())
        if arriving[1] > most_bytes:
            raise too_long(most_bytes)
        more = max(after - before for before, after in zip(arrived, arriving, strict=True))
        patience = min(seconds, patience - (now - then) + max(0, more) / SLOWEST)
        if patience <= 0:
            raise TimeoutError
        then, arrived = now, arriving


def too_long(most_bytes: int) -> UnexpectedAnswer:
    """Return the error for an answer that goes on after its announced end."""
    return UnexpectedAnswer(f"its answer is longer than {most_bytes} bytes")
