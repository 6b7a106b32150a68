"""From chunks to events in one loop, and its twin for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import aclosing, closing, suppress
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.audio.chunks import Chunker
from wlk_core.audio.convert import validate_audio
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.session.async_events import RecoverableEvents
from wlk_core.session.events import Commit, End, SilenceSpan
from wlk_core.session.pipeline import chunk_samples, steps, transcribe_stream
from wlk_core.session.session import Session
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator

    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_core.vad.gate import SilenceGate
    from wlk_core.vad.parameters import GateParameters

__all__ = ["astream", "stream"]

_STEP_EVENTS = 16  # more than a step has


def stream(
    processor: OnlineProcessor,
    chunks: Iterable[NDArray[np.float32]],
    *,
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    diarizer: Diarizer | None = None,
) -> Generator[Event]:
    """
    Run *chunks* through *processor*, which is finished and closed afterwards.

    Each chunk is float32[n] at 16 kHz of any length n >= 0; it is copied, so that its memory may be
    reused.  The processor works whenever `chunk_seconds` of audio have come.  A loop that is left
    early closes the processor without a finish; close the generator to do so at a known time.  The
    spans of the diarizer, which the caller closes, are `SpeakerTurn` events.

    Yields:
        The events of a Session in the order in which they happen, and one End.

    Raises:
        AudioFormatError: a chunk is not one channel of finite float32; raised after the text of
            the audio before it.
        BackendError: the engine failed for good; raised after everything that was committed.
        OptionError: `chunk_seconds` is not above 0.

    """
    with closing(processor):
        _require_chunks(chunks)
        pieces = map(_own_copy, chunks)
        gate = _gate(vad=vad)
        yield from transcribe_stream(
            processor, pieces, chunk_seconds=chunk_seconds, gate=gate, diarizer=diarizer
        )


def astream(
    processor: OnlineProcessor | Callable[[], OnlineProcessor],
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
    *,
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
) -> AsyncGenerator[Event]:
    """
    Run *chunks* through *processor* without blocking the event loop; see `stream`.

    Every call of the processor runs in a thread of asyncio, one at a time.  A thread is held only
    while the model works and, where *chunks* is a plain iterable, while its next chunk is awaited:
    give live sources as async iterables.  Two calls may come from different threads; run a backend
    that declares ``thread_affinity="same-thread"`` with `stream` in a thread of your own instead.
    *processor* may also be a function that opens the stream, such as ``backend.create_processor``.
    It is called in a thread too, with the first ``anext``, because it may wait for another server.

    A consumer that is cancelled, or that closes the generator, closes the processor.  The
    cancellation waits for the step that is running, because no engine can be interrupted, so that
    the backend can be closed right afterwards.  Every event that was yielded before remains valid.
    What the running step committed comes with the next ``anext``, and then the events end; audio
    that was not decoded is dropped with the stream.  Where a stream must go on after a
    cancellation, use AsyncProcessor.
    """
    return RecoverableEvents(
        partial(_astream, processor, chunks, vad=vad, chunk_seconds=chunk_seconds)
    )


async def _astream(
    processor: OnlineProcessor | Callable[[], OnlineProcessor],
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
    late: deque[Event],
    *,
    vad: bool | GateParameters,
    chunk_seconds: float,
) -> AsyncGenerator[Event]:
    failure: AudioFormatError | OSError | None = None
    if callable(processor):
        processor = await _opened(processor)
    with closing(processor):
        _require_chunks(chunks, may_be_async=True)
        session = Session(processor, gate=await asyncio.to_thread(_gate, vad=vad))
        chunker = Chunker(chunk_samples(chunk_seconds))
        async with aclosing(_async_pieces(chunks)) as pieces:
            while not session.is_over:
                try:
                    piece = await anext(pieces, None)
                except (AudioFormatError, OSError) as error:  # raised again below, after finish
                    piece, failure = None, error
                ready = chunker.flush() if piece is None else chunker.push(piece)
                events = _events(session, ready, is_last=piece is None)
                while event := await _step(processor, events, late):
                    if failure is not None and isinstance(event, End):
                        raise failure
                    yield event


async def _opened(open_processor: Callable[[], OnlineProcessor]) -> OnlineProcessor:
    """Open a processor in a thread; when cancelled, wait for it and close it."""
    opening = asyncio.create_task(asyncio.to_thread(open_processor))
    try:
        await asyncio.wait([opening])
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        await asyncio.wait([opening])
        raise
    return opening.result()


def _close_opened(opening: asyncio.Task[OnlineProcessor]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _events(
    session: Session, chunks: Iterable[NDArray[np.float32]], *, is_last: bool
) -> Iterator[Event]:
    for chunk in chunks:
        session.receive(chunk)
        yield from steps(session)
    if is_last:
        session.end_audio()
        yield from steps(session)


async def _step(
    processor: OnlineProcessor, events: Iterator[Event], late: deque[Event]
) -> Event | None:
    """Return the next event, computed in a thread; when cancelled, close and keep it in *late*."""
    thread = asyncio.create_task(asyncio.to_thread(next, events, None))
    try:
        await asyncio.wait([thread])
    except asyncio.CancelledError:
        thread.add_done_callback(partial(_keep_events, events, late))
        processor.close()  # takes effect after the step that runs
        await asyncio.wait([thread])
        raise
    return thread.result()


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


async def _async_pieces(
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
) -> AsyncGenerator[NDArray[np.float32]]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield _own_copy(chunk)
        return
    pull = partial(next, iter(chunks), None)
    while (piece := await asyncio.to_thread(pull)) is not None:
        yield _own_copy(piece)


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


def _own_copy(chunk: NDArray[np.float32]) -> NDArray[np.float32]:
    """Copy a chunk, because live sources reuse the memory of theirs."""
    validate_audio(chunk)
    return chunk.copy()


def _gate(*, vad: bool | GateParameters) -> SilenceGate | None:
    if vad is False:
        return None
    from wlk_core.vad import silence_gate  # noqa: PLC0415 -- loads a model

    return silence_gate(vad)
