"""From audio to events in one loop over a backend, and the twin for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import closing
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.audio.convert import sealed, valid_copy
from wlk_core.audio.pcm import Chunker, require_rate
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.session.events import End, Event, Failure
from wlk_core.session.session import Session
from wlk_core.untrusted import real_number, shown
from wlk_core.vad import silence_gate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.vad import GateParameters

__all__ = ["AsyncEvents", "astream", "new_chunker", "run_session", "stream"]

T = TypeVar("T")

logger = logging.getLogger(__name__)


def stream(
    backend: Backend,
    chunks: Iterable[NDArray[np.float32]],
    *,
    language: str | None = None,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    sample_rate: int = SAMPLE_RATE,
    **options: Any,
) -> Generator[Event]:
    """
    Transcribe chunks of float32[n] at `sample_rate`, n >= 0, and yield events as they happen.

    `language`, `task` and `options` are those of `create_processor`.  Each chunk is copied, so that
    its memory may be reused, and resampled where `sample_rate` is not 16 kHz.  The model works
    whenever `chunk_seconds` of audio have come.  With `vad` pauses are left out, because models
    invent words in silence; GateParameters choose when speech begins and ends.  A loop that is left
    early closes the stream without a finish; close the generator to do so at a known time.

    Errors, those of *chunks* included, are raised after everything committed before them.  After an
    AudioFormatError or an OSError of *chunks* the audio before it is finished first, so that a
    damaged file gives all the text of its sound part.

    Yields:
        The events of a Session in the order in which they happen, and one End.

    Raises:
        AudioFormatError: a chunk is not one channel of finite float32.
        BackendError: the engine failed for good.
        OptionError: an option is unknown or unsupported, or `chunk_seconds` is not above 0.

    """
    chunker, gate = new_chunker(chunk_seconds, sample_rate), silence_gate(vad)
    is_one = isinstance(chunks, np.ndarray) and chunks.ndim == 1
    if is_one or not hasattr(type(chunks), "__iter__"):
        raise AudioFormatError(
            f"expected an iterable of chunks, got {shown(chunks)}; call transcribe with a whole "
            "recording, and astream with an asynchronous iterable"
        )
    processor = backend.create_processor(language=language, task=task, **options)
    return run_session(processor, Session(processor, gate=gate, rate=sample_rate), chunks, chunker)


def astream(
    backend: Backend,
    chunks: AsyncIterable[NDArray[np.float32]],
    *,
    language: str | None = None,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    sample_rate: int = SAMPLE_RATE,
    **options: Any,
) -> AsyncEvents:
    """
    Transcribe chunks without blocking the event loop; see `stream`.

    Every call of the model runs in a thread of asyncio, one at a time, and so does the opening of
    the stream with the first ``anext``, because it may wait for another server.  A thread is held
    only while the model works.  Two calls may come from different threads; run a backend that
    declares ``thread_affinity="same-thread"`` with `stream` in a thread of your own.

    A consumer that is cancelled, or that calls `aclose`, closes the stream.  The cancellation waits
    for the step that is running, because no engine can be interrupted, so that the backend can be
    closed right afterwards.  Every event that was yielded before remains valid.  The events of the
    running step come with the next ``anext``, and then they end; audio that was not decoded is
    dropped with the stream.
    """
    # What is wrong is refused now, and not with the first anext.
    backend.spec.stream_options(options)
    if not isinstance(chunks, AsyncIterable):
        raise AudioFormatError(
            f"expected an asynchronous iterable of chunks, got {shown(chunks)}; "
            "call stream or transcribe in a thread, with asyncio.to_thread"
        )
    chunker = new_chunker(chunk_seconds, sample_rate)

    def opened() -> tuple[OnlineProcessor, Session]:
        gate = silence_gate(vad)
        processor = backend.create_processor(language=language, task=task, **options)
        return processor, Session(processor, gate=gate, rate=sample_rate)

    return AsyncEvents(opened, chunks, chunker)


class AsyncEvents(AsyncIterator[Event]):
    """
    The events of `astream`.

    The last reference to an iteration that was left closes the stream, and not the garbage
    collector some time later.
    """

    def __init__(
        self,
        opened: Callable[[], tuple[OnlineProcessor, Session]],
        chunks: AsyncIterable[NDArray[np.float32]],
        chunker: Chunker,
    ) -> None:
        self._processor: OnlineProcessor | None = None
        self._session: Session | None = None
        self._is_stopped = False
        self._running: asyncio.Task[Any] | None = None  # the latest call in a thread
        self._opened = opened
        self._pieces = aiter(chunks)
        self._chunker = chunker
        # A thread leaves the events of its step here, so that none is lost when the consumer that
        # waited for it is cancelled.
        self._ready: deque[Event] = deque()
        self._steps: Iterator[list[Event]] | None = None  # of the piece that came last

    async def __anext__(self) -> Event:
        """Return the next event."""
        while not self._ready:
            if self._is_stopped:
                if self._running is None or self._running.done():
                    raise StopAsyncIteration
                await asyncio.wait([self._running])  # a second cancellation did not wait for it
                continue
            try:
                await self._advance()
            except BaseException:
                self._stop()
                raise
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Close the stream and drop its events."""
        self._ready.clear()
        self._stop()

    def _stop(self) -> None:
        self._is_stopped = True
        if self._processor is not None:
            self._processor.close()

    __del__ = _stop

    async def _advance(self) -> None:
        """Make a step, or wait for the audio of one."""
        if self._session is None:
            self._session = await self._in_thread(self._open)
        if self._steps is None:
            piece, failure = None, None
            try:
                piece = await anext(self._pieces, None)
                piece = None if piece is None else valid_copy(piece)
            except (AudioFormatError, OSError) as error:  # as in `run_session`
                piece, failure = None, error
            self._steps = _steps(self._session, self._chunker, piece, failure)
        if not await self._in_thread(self._step):
            self._steps = None
            if self._session.is_over:
                self._stop()

    def _open(self) -> Session:
        self._processor, session = self._opened()
        if self._is_stopped:
            self._processor.close()
        return session

    def _step(self) -> bool:
        """Make a step and keep its events; return whether there was one."""
        events = None if self._steps is None else next(self._steps, None)
        self._ready.extend(events or ())
        return events is not None

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """
        Make *call* in a thread; when cancelled, close the stream and wait for the thread.

        The cancellation waits because no engine can be interrupted.  A second one does not, and the
        stream is closed all the same when the thread ends.
        """
        made = asyncio.create_task(asyncio.to_thread(call))
        self._running = made
        try:
            await asyncio.wait([made])
        except asyncio.CancelledError:
            # An error of the thread reaches no one; asking for it keeps asyncio from logging it.
            made.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._stop()
            await asyncio.wait([made])
            raise
        return made.result()


def run_session(
    processor: OnlineProcessor,
    session: Session,
    chunks: Iterable[NDArray[np.float32]],
    chunker: Chunker,
) -> Generator[Event]:
    """Give *chunks* to the session of *processor*, which is closed at the end; see `stream`."""
    with closing(processor):
        pieces = map(valid_copy, chunks)
        failure: Exception | None = None
        while not session.is_over:
            try:
                piece = next(pieces, None)
            except (AudioFormatError, OSError) as error:  # raised after the text before it
                piece, failure = None, error
            for events in _steps(session, chunker, piece, failure):
                yield from events


def _steps(
    session: Session,
    chunker: Chunker,
    piece: NDArray[np.float32] | None,
    failure: Exception | None,
) -> Iterator[list[Event]]:
    """
    Give a piece to *session* and yield the events of each step.

    None is the end of the audio, because of *failure* if there was one.  Failures that pass are
    logged, because the words come all the same.

    Raises:
        BackendError: the session ended with a final failure; every event before it was yielded.
        Exception: *failure*, in place of the End.

    """
    for chunk in chunker.flush() if piece is None else chunker.push(piece):
        session.receive(sealed(chunk))
        yield from _work_off(session, failure)
    if piece is None:
        session.end_audio()
        yield from _work_off(session, failure)


def _work_off(session: Session, failure: Exception | None) -> Iterator[list[Event]]:
    while session.has_work:
        events = session.step()
        for index, event in enumerate(events):
            error = failure if isinstance(event, End) else None
            if isinstance(event, Failure):
                error = event.error if event.is_final else None
                if error is None:
                    logger.warning("%s", event.error)
            if error is not None:
                yield events[:index]
                raise error
        yield events


def new_chunker(chunk_seconds: float, sample_rate: int) -> Chunker:
    """Return what cuts chunks of so many seconds; raise OptionError for an impossible length."""
    seconds = real_number(chunk_seconds)
    if seconds is None or not 0 < seconds <= MAX_STREAM_SECONDS:
        raise OptionError(
            f"expected `chunk_seconds` above 0 and up to {MAX_STREAM_SECONDS:.0f}, "
            f"got {shown(chunk_seconds)}"
        )
    return Chunker(max(1, round(seconds * require_rate(sample_rate))))
