"""From audio to events in one loop, over a stream or a backend, and the twin for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, closing
from functools import partial
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.audio.chunks import Chunker
from wlk_core.audio.convert import sealed, valid_copy
from wlk_core.audio.pcm import require_rate
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.session.events import End, Event, Failure
from wlk_core.session.session import Session
from wlk_core.untrusted import real_number, shown
from wlk_core.vad.gate import silence_gate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer
    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.vad.gate import GateParameters, SilenceGate

__all__ = ["astream", "stream", "transcribe_stream"]

T = TypeVar("T")

logger = logging.getLogger(__name__)


def transcribe_stream(
    processor: OnlineProcessor,
    pieces: Iterable[NDArray[np.float32]],
    *,
    chunk_seconds: float = 1.0,
    gate: SilenceGate | None = None,
    realtime: bool = False,
    diarizer: Diarizer | None = None,
) -> Generator[Event]:
    """
    Run *pieces*, float32 arrays of any lengths at 16 kHz, through *processor*.

    The audio is given in chunks of `chunk_seconds`.  Each piece is copied, so that its memory may
    be reused.  With a gate, pauses are left out and reported to the processor as silences.  With
    `realtime` a chunk is given when it would have been spoken.  The caller closes the processor and
    the diarizer.  Times come from whole sample counts.

    Errors, those of *pieces* included, are raised when everything committed before them has been
    yielded.  After an error of *pieces* the audio before it is finished first, so that a damaged
    file gives all the text of its sound part.

    Yields:
        The events of a Session as they happen, and one End.

    Raises:
        AudioFormatError: a piece is not one channel of finite float32, or *pieces* raised it.
        OSError: *pieces* raised it.
        BackendError: the engine failed.
        OptionError: `chunk_seconds` is not above 0.

    """
    session = Session(processor, gate=gate, diarizer=diarizer)
    return _run(session, pieces, _chunker(chunk_seconds, SAMPLE_RATE), realtime=realtime)


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

    Yields:
        The events of a Session in the order in which they happen, and one End.

    Raises:
        AudioFormatError: a chunk is not one channel of finite float32; raised after the text of
            the audio before it.
        BackendError: the engine failed for good; raised after everything that was committed.
        OptionError: an option is unknown or unsupported, or `chunk_seconds` is not above 0.

    """
    chunker, gate = _chunker(chunk_seconds, sample_rate), silence_gate(vad)
    if isinstance(chunks, np.ndarray) and chunks.ndim == 1:
        raise AudioFormatError(
            "expected an iterable of chunks, got one array of samples; "
            "put it into a list, or call transcribe"
        )
    if not hasattr(type(chunks), "__iter__"):
        raise AudioFormatError(
            f"expected an iterable of chunks, got {shown(chunks)}; "
            f"call {'astream' if isinstance(chunks, AsyncIterable) else 'transcribe'} with it"
        )
    processor = backend.create_processor(language=language, task=task, **options)
    return _closing_stream(processor, _run(Session(processor, gate=gate), chunks, chunker))


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
) -> AsyncGenerator[Event]:
    """
    Transcribe chunks without blocking the event loop; see `stream`.

    Every call of the model runs in a thread of asyncio, one at a time, and so does the opening of
    the stream with the first ``anext``, because it may wait for another server.  A thread is held
    only while the model works.  Two calls may come from different threads; run a backend that
    declares ``thread_affinity="same-thread"`` with `stream` in a thread of your own.

    A consumer that is cancelled, or that closes the generator, closes the stream.  The
    cancellation waits for the step that is running, because no engine can be interrupted, so that
    the backend can be closed right afterwards.  Every event that was yielded before remains valid.
    The events of the running step come with the next ``anext``, and then they end; audio that was
    not decoded is dropped with the stream.
    """
    # What is wrong is refused now, and not with the first anext.
    backend.spec.stream_options(options)
    if not isinstance(chunks, AsyncIterable):
        raise AudioFormatError(
            f"expected an asynchronous iterable of chunks, got {shown(chunks)}; "
            "call stream or transcribe in a thread, with asyncio.to_thread"
        )
    chunker = _chunker(chunk_seconds, sample_rate)
    opening = partial(backend.create_processor, language=language, task=task, **options)
    run = _AsyncRun(opening)
    return _AsyncEvents(run, run.steps(chunks, vad, chunker))


def _run(
    session: Session,
    pieces: Iterable[NDArray[np.float32]],
    chunker: Chunker,
    *,
    realtime: bool = False,
) -> Generator[Event]:
    began = time.perf_counter() if realtime else None
    valid_pieces = map(valid_copy, pieces)
    failure: Exception | None = None
    while not session.is_over:
        try:
            piece = next(valid_pieces, None)
        except (AudioFormatError, OSError) as error:  # raised after the text of what came before
            piece, failure = None, error
        for events in _steps(session, chunker, piece, failure, began=began):
            yield from events


def _closing_stream(processor: OnlineProcessor, events: Generator[Event]) -> Generator[Event]:
    with closing(processor):
        yield from events


def _steps(
    session: Session,
    chunker: Chunker,
    piece: NDArray[np.float32] | None,
    failure: Exception | None,
    *,
    began: float | None = None,
) -> Iterator[list[Event]]:
    """
    Give a piece to *session*, in real time from *began* on, and yield the events of each step.

    None is the end of the audio, because of *failure* if there was one.  Failures that pass are
    logged, because the words come all the same.

    Raises:
        BackendError: the session ended with a final failure; every event before it was yielded.
        Exception: *failure*, in place of the End.

    """
    for chunk in chunker.flush() if piece is None else chunker.push(piece):
        if began is not None:
            due = began + session.audio_time + len(chunk) / SAMPLE_RATE
            time.sleep(max(0.0, due - time.perf_counter()))
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


class _AsyncEvents(AsyncGenerator[Event, None]):
    """
    The events of `astream`.

    The run does not refer to this object or to its generator, so that the last reference to an
    iteration that was left closes the stream, and not the garbage collector some time later.
    """

    def __init__(self, run: _AsyncRun, steps: AsyncGenerator[None]) -> None:
        self._ready = run.ready
        self._steps = steps

    async def asend(self, value: None) -> Event:
        """Return the next event."""
        while not self._ready:
            await self._steps.asend(value)
        return self._ready.popleft()

    async def athrow(self, *exception: Any) -> Event:
        """Raise an exception where the stream waits."""
        await self._steps.athrow(*exception)
        return await anext(self)

    async def aclose(self) -> None:
        """Close the stream and drop its events."""
        self._ready.clear()
        await self._steps.aclose()


class _AsyncRun:
    """
    The work of `astream`, in threads.

    A thread leaves the events of its step in a queue, so that none is lost when the consumer that
    waited for it is cancelled.
    """

    def __init__(self, opening: Callable[[], OnlineProcessor]) -> None:
        self.ready: deque[Event] = deque()
        self._opening = opening
        self._processor: OnlineProcessor | None = None
        self._is_stopped = False

    async def steps(
        self,
        chunks: AsyncIterable[NDArray[np.float32]],
        vad: bool | GateParameters,  # noqa: FBT001 -- as in `stream`
        chunker: Chunker,
    ) -> AsyncGenerator[None]:
        """Transcribe *chunks*; yield after each step, whose events are in `ready` then."""
        failure: Exception | None = None
        processor = await self._in_thread(self._open)
        with closing(processor):
            session = Session(processor, gate=await self._in_thread(partial(silence_gate, vad)))
            async with aclosing(valid_copy(chunk) async for chunk in chunks) as pieces:
                while not session.is_over:
                    try:
                        piece = await anext(pieces, None)
                    except (AudioFormatError, OSError) as error:  # as in `_run`
                        piece, failure = None, error
                    steps = _steps(session, chunker, piece, failure)
                    while await self._in_thread(partial(self._step, steps)):
                        yield

    def _open(self) -> OnlineProcessor:
        self._processor = self._opening()
        if self._is_stopped:
            self._processor.close()
        return self._processor

    def _step(self, steps: Iterator[list[Event]]) -> bool:
        """Make a step and keep its events; return whether there was one."""
        events = next(steps, None)
        self.ready.extend(events or ())
        return events is not None

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """
        Make *call* in a thread; when cancelled, close the stream and wait for the thread.

        The cancellation waits because no engine can be interrupted.
        """
        made = asyncio.create_task(asyncio.to_thread(call))
        try:
            await asyncio.wait([made])
        except asyncio.CancelledError:
            # An error of the thread reaches no one; asking for it keeps asyncio from logging it.
            made.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._is_stopped = True
            if self._processor is not None:
                self._processor.close()
            await asyncio.wait([made])
            raise
        return made.result()


def _chunker(chunk_seconds: float, sample_rate: int) -> Chunker:
    seconds = real_number(chunk_seconds)
    if seconds is None or not 0 < seconds <= MAX_STREAM_SECONDS:
        raise OptionError(
            f"expected `chunk_seconds` above 0 and up to {MAX_STREAM_SECONDS:.0f}, "
            f"got {shown(chunk_seconds)}"
        )
    return Chunker(max(1, round(seconds * SAMPLE_RATE)), rate=require_rate(sample_rate))
