"""From audio to events in one loop, over a stream or a backend, and the twin for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, closing, suppress
from functools import partial
from itertools import chain, islice
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.audio.chunks import Chunker
from wlk_core.audio.convert import sealed, valid_copy
from wlk_core.audio.pcm import require_rate
from wlk_core.errors import AudioFormatError, OptionError, WLKError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.session.events import Commit, End, Event, Failure, SilenceSpan
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

_STEP_EVENTS = 16  # more than a step has


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
    _require_chunks(chunks)
    processor = backend.create_processor(language=language, task=task, **options)
    return _closing_stream(processor, _run(Session(processor, gate=gate), chunks, chunker))


def astream(
    backend: Backend,
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
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
    only while the model works and, where *chunks* is a plain iterable, while its next chunk is
    awaited: give live sources as async iterables.  Two calls may come from different threads; run
    a backend that declares ``thread_affinity="same-thread"`` with `stream` in a thread of your own.

    A consumer that is cancelled, or that closes the generator, closes the stream.  The
    cancellation waits for the step that is running, because no engine can be interrupted, so that
    the backend can be closed right afterwards.  Every event that was yielded before remains valid.
    What the running step committed comes with the next ``anext``, and then the events end; audio
    that was not decoded is dropped with the stream.
    """
    # What is wrong is refused now, and not with the first anext.
    backend.spec.stream_options(options)
    _require_chunks(chunks, may_be_async=True)
    chunker = _chunker(chunk_seconds, sample_rate)
    opening = partial(backend.create_processor, language=language, task=task, **options)
    return _RecoverableEvents(partial(_astream, opening, chunks, vad, chunker))


def _run(
    session: Session,
    pieces: Iterable[NDArray[np.float32]],
    chunker: Chunker,
    *,
    realtime: bool = False,
) -> Generator[Event]:
    began = time.perf_counter() if realtime else None
    valid_pieces = map(valid_copy, pieces)
    failure: AudioFormatError | OSError | None = None
    while not session.is_over:
        try:
            piece = next(valid_pieces, None)
        except (AudioFormatError, OSError) as error:  # raised again below, after finish
            piece, failure = None, error
        ready = chunker.flush() if piece is None else chunker.push(piece)
        for event in _events(session, ready, is_last=piece is None, began=began):
            if failure is not None and isinstance(event, End):
                raise failure
            yield event


def _closing_stream(processor: OnlineProcessor, events: Generator[Event]) -> Generator[Event]:
    with closing(processor):
        yield from events


async def _astream(
    opening: Callable[[], OnlineProcessor],
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
    vad: bool | GateParameters,  # noqa: FBT001 -- as in `stream`
    chunker: Chunker,
    late: deque[Event],
) -> AsyncGenerator[Event]:
    failure: AudioFormatError | OSError | None = None
    processor = await _in_thread(opening, when_late=_close_opened)
    with closing(processor):
        session = Session(processor, gate=await asyncio.to_thread(silence_gate, vad))
        async with aclosing(_async_pieces(chunks)) as pieces:
            while not session.is_over:
                try:
                    piece = await anext(pieces, None)
                except (AudioFormatError, OSError) as error:  # raised again below, after finish
                    piece, failure = None, error
                ready = chunker.flush() if piece is None else chunker.push(piece)
                events = _events(session, ready, is_last=piece is None)
                step: Callable[[], Event | None] = partial(next, events, None)
                keep = partial(_keep_events, events, late)
                while event := await _in_thread(step, stop=processor.close, when_late=keep):
                    if failure is not None and isinstance(event, End):
                        raise failure
                    yield event


def _events(
    session: Session,
    chunks: Iterable[NDArray[np.float32]],
    *,
    is_last: bool,
    began: float | None = None,
) -> Iterator[Event]:
    """Give valid chunks to *session*, in real time from *began* on, and yield what happens."""
    for chunk in chunks:
        if began is not None:
            due = began + session.audio_time + len(chunk) / SAMPLE_RATE
            time.sleep(max(0.0, due - time.perf_counter()))
        session.receive(sealed(chunk))
        yield from _steps(session)
    if is_last:
        session.end_audio()
        yield from _steps(session)


def _steps(session: Session) -> Iterator[Event]:
    """
    Do all the work that *session* has; yield each event as soon as its step is over.

    Failures that pass are logged, because the words come all the same.

    Raises:
        BackendError: the session ended with a final failure; every event before it was yielded.

    """
    while session.has_work:
        for event in session.step():
            if isinstance(event, Failure):
                if event.is_final:
                    raise event.error
                logger.warning("%s", event.error)
            yield event


async def _in_thread(
    call: Callable[[], T],
    *,
    stop: Callable[[], object] = lambda: None,
    when_late: Callable[[asyncio.Task[T]], object],
) -> T:
    """
    Make *call* in a thread; when cancelled, call *stop*, wait, and give its task to *when_late*.

    The cancellation waits because no engine can be interrupted.
    """
    made = asyncio.create_task(asyncio.to_thread(call))
    try:
        await asyncio.wait([made])
    except asyncio.CancelledError:
        made.add_done_callback(when_late)  # also where this task is cancelled once more
        stop()
        await asyncio.wait([made])
        raise
    return made.result()


def _close_opened(opened: asyncio.Task[OnlineProcessor]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


def _keep_events(
    events: Iterator[Event], late: deque[Event], thread: asyncio.Task[Event | None]
) -> None:
    """Keep the events of the step that ran when its consumer was cancelled."""
    if thread.cancelled() or thread.exception() is not None or thread.result() is None:
        return  # an error is marked as seen, because no caller can receive it now
    with suppress(WLKError):  # the stream is closed: after the events of the step comes an error
        for event in chain([thread.result()], islice(events, _STEP_EVENTS)):
            if isinstance(event, Commit | SilenceSpan):
                late.append(event)


class _RecoverableEvents(AsyncGenerator[Event, None]):
    """
    The events of a generator, and after it was cancelled those that it had computed by then.

    *generate* is called with a deque for these late events, and returns the generator.  The first
    ``anext`` after a cancelled one returns the first of them, and after the last the events end.
    """

    def __init__(self, generate: Callable[[deque[Event]], AsyncGenerator[Event]]) -> None:
        self._late: deque[Event] = deque()
        self._events = generate(self._late)

    async def asend(self, value: None) -> Event:
        """Return the next event."""
        try:
            return await self._events.asend(value)
        except StopAsyncIteration:
            if not self._late:
                raise
        return self._late.popleft()

    async def athrow(self, *exception: Any) -> Event:
        """Raise an exception where the generator waits."""
        return await self._events.athrow(*exception)

    async def aclose(self) -> None:
        """Close the generator and drop the late events."""
        self._late.clear()
        await self._events.aclose()


async def _async_pieces(
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
) -> AsyncGenerator[NDArray[np.float32]]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield valid_copy(chunk)
        return
    pull = partial(next, iter(chunks), None)
    while (piece := await asyncio.to_thread(pull)) is not None:
        yield valid_copy(piece)


def _require_chunks(chunks: object, *, may_be_async: bool = False) -> None:
    if isinstance(chunks, np.ndarray) and chunks.ndim == 1:
        raise AudioFormatError(
            "expected an iterable of chunks, got one array of samples; "
            "put it into a list, or call transcribe"
        )
    is_async = isinstance(chunks, AsyncIterable)
    if (is_async and not may_be_async) or not (is_async or hasattr(type(chunks), "__iter__")):
        raise AudioFormatError(
            f"expected an iterable of chunks, got {shown(chunks)}; "
            + ("call astream" if is_async else "call transcribe for a recording")
        )


def _chunker(chunk_seconds: float, sample_rate: int) -> Chunker:
    seconds = real_number(chunk_seconds)
    if seconds is None or not 0 < seconds <= MAX_STREAM_SECONDS:
        raise OptionError(
            f"expected `chunk_seconds` above 0 and up to {MAX_STREAM_SECONDS:.0f}, "
            f"got {shown(chunk_seconds)}"
        )
    return Chunker(max(1, round(seconds * SAMPLE_RATE)), rate=require_rate(sample_rate))
