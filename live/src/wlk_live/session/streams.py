"""Transcribe chunks of audio as they come and yield events, with or without asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import ExitStack, closing, suppress
from functools import partial
import logging
import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.audio import sealed, valid_copy
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown
from wlk_live.audio.pcm import Chunker, rechunk, require_rate
from wlk_live.session.driver import Driver, reading
from wlk_live.session.events import End, Event, Failure
from wlk_live.session.session import Session
from wlk_live.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        AsyncIterator,
        Callable,
        Generator,
        Iterable,
        Sequence,
    )

    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer, TextFilter
    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_live.vad import GateParameters

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Connections raise errors of their own libraries when they break, such as websockets'
# ConnectionClosedError: those end the audio, with every word of it.
_ANY = (Exception,)


def stream(
    backend: Backend,
    chunks: Iterable[NDArray[np.float32]],
    *,
    language: str | None = None,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    sample_rate: int = SAMPLE_RATE,
    diarizer: Diarizer | None = None,
    text_filters: Sequence[TextFilter] = (),
    **options: Any,
) -> Generator[Event]:
    """
    Transcribe chunks of float32[n] at `sample_rate`, n >= 0, and yield events as they happen.

    `language`, `task` and `options` are those of `create_processor`.  Each chunk is copied, so that
    its memory can be reused, and resampled if `sample_rate` is not 16 kHz.  The model runs whenever
    `chunk_seconds` of audio have arrived.  With `vad`, pauses are left out, because models invent
    words in silence; GateParameters choose when speech begins and ends.  A new or reset `diarizer`
    finds the speakers, which are events of their own, after the words; `text_filters` rewrite the
    words, each those of the one before it.  The caller closes them.  Leaving the loop early closes
    the stream without a finish; close the generator to do so at a known time.

    Errors, including those that *chunks* raises, are raised after everything committed before them.
    If *chunks* raises, the audio before it is transcribed to its end first, so that a connection
    that breaks or a damaged file loses no word.

    Yields:
        The events of a Session in the order in which they happen, and one End.

    Raises:
        AudioFormatError: a chunk is not one channel of finite float32.
        BackendError: the engine failed for good.
        OptionError: an option is unknown or unsupported, or `chunk_seconds` is not above 0.

    """
    require_loaded(backend, diarizer, text_filters)
    samples, gate = _chunk_samples(chunk_seconds, sample_rate), silence_gate(vad)
    if isinstance(chunks, np.ndarray) and chunks.ndim == 1:  # each sample would be a chunk
        raise AudioFormatError("expected an iterable of chunks, got an array; call transcribe")
    if isinstance(chunks, str | bytes | os.PathLike):
        kind = type(chunks).__name__
        raise AudioFormatError(
            f"expected an iterable of chunks, got {kind}; call transcribe, or pass decode_file(...)"
        )
    processor = backend.create_processor(language=language, task=task, **options)
    session = Session(
        processor, gate=gate, rate=sample_rate, diarizer=diarizer, text_filters=text_filters
    )
    return _events(processor, session, chunks, samples)


def _events(
    processor: OnlineProcessor,
    session: Session,
    chunks: Iterable[NDArray[np.float32]],
    samples: int,
) -> Generator[Event]:
    with closing(processor):
        pieces = map(sealed, rechunk(map(valid_copy, chunks), samples))
        for events in _steps(Driver(session, reading(pieces), failures=_ANY)):
            yield from events


def astream(
    backend: Backend,
    chunks: AsyncIterable[NDArray[np.float32]],
    *,
    language: str | None = None,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    sample_rate: int = SAMPLE_RATE,
    diarizer: Diarizer | None = None,
    text_filters: Sequence[TextFilter] = (),
    **options: Any,
) -> AsyncGenerator[Event]:
    """
    Transcribe chunks without blocking the event loop; see `stream`.

    Every call of the model runs in one of asyncio's threads, one at a time.  So does opening the
    stream, at the first ``anext``, because it may wait for another server.  A thread is occupied
    only while the model runs.  Two calls can run in different threads; if a backend declares
    ``thread_affinity="same-thread"``, use `stream` in a thread of your own.

    Cancelling the consumer, or `aclose`, closes the stream.  A cancellation waits for the running
    step, because an engine cannot be interrupted; the backend can be closed right afterwards.  What
    this step commits is dropped, with all audio that was not decoded: to keep every word, end the
    source instead.  Another task has to cancel the consumer's task: `aclose` during its ``anext``
    raises RuntimeError, as with any asynchronous generator.
    """
    # Invalid arguments are refused now, not at the first anext.
    require_loaded(backend, diarizer, text_filters)
    backend.spec.stream_options(options)
    pieces = aiter(chunks)
    samples = _chunk_samples(chunk_seconds, sample_rate)

    def open_session(stack: ExitStack) -> Session:
        gate = silence_gate(vad)
        processor = backend.create_processor(language=language, task=task, **options)
        stack.enter_context(closing(processor))
        return Session(
            processor, gate=gate, rate=sample_rate, diarizer=diarizer, text_filters=text_filters
        )

    return _async_events(open_session, pieces, samples)


async def _async_events(
    open_session: Callable[[ExitStack], Session],
    pieces: AsyncIterator[NDArray[np.float32]],
    samples: int,
) -> AsyncGenerator[Event]:
    with ExitStack() as stack:
        session = await _in_thread(partial(open_session, stack))
        arrived = _Arrived(samples)
        steps = _steps(Driver(session, arrived.read, failures=_ANY))
        while True:
            while not (arrived.has_news or session.has_work or session.is_over):
                await arrived.wait(pieces)
            events = await _in_thread(partial(next, steps, None))
            if events is None:
                return
            for event in events:
                yield event


class _Arrived:
    """A source whose audio arrives in an event loop, in chunks of *samples* samples."""

    def __init__(self, samples: int) -> None:
        self._chunker = Chunker(samples)
        self._chunks: deque[NDArray[np.float32]] = deque()
        self._has_ended = False
        self._failure: Exception | None = None

    @property
    def has_news(self) -> bool:
        """Whether `read` would return a chunk or the end."""
        return bool(self._chunks) or self._has_ended

    async def wait(self, pieces: AsyncIterator[NDArray[np.float32]]) -> None:
        """Wait for the next piece, or the end."""
        try:
            piece = await anext(pieces, None)
            if piece is not None:
                self._chunks += self._chunker.push(valid_copy(piece))
        except Exception as error:  # noqa: BLE001 -- a caller's source; `read` raises it again
            self._failure, piece = error, None
        if piece is None:
            self._has_ended = True
            self._chunks += self._chunker.flush()

    def read(self, seconds: float) -> Sequence[NDArray[np.float32]] | None:
        """Return the next chunk; see `Read`."""
        if seconds == 0:
            return ()
        if self._chunks:
            return (sealed(self._chunks.popleft()),)
        if self._failure is not None:
            raise self._failure
        return None if self._has_ended else ()


async def _in_thread(call: Callable[[], T]) -> T:
    # A future, not a task: asyncio.run would cancel a task while its thread keeps running.
    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        # The thread still uses the stream, so it is waited for, however often this is cancelled.
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        future.exception()  # asyncio would log an error that was never retrieved
        raise
    return future.result()


def _steps(driver: Driver) -> Generator[list[Event]]:
    # Yield the events of each step.  Why the source failed is raised in place of the End, and a
    # final Failure too, both after the events before them.  Other failures are logged: no word is
    # lost.
    for events in driver.run():
        for index, event in enumerate(events):
            error = driver.failure if isinstance(event, End) else None
            if isinstance(event, Failure):
                error = event.error if event.is_final else None
                if error is None:
                    logger.warning("%s", event.error)
            if error is not None:
                yield events[:index]
                raise error
        yield events


def require_loaded(backend: object, diarizer: object = None, text_filters: object = ()) -> None:
    """Raise OptionError for a name where the loaded object is expected; it says how to load it."""
    if isinstance(backend, str):
        name = shown(backend)
        raise OptionError(
            f"expected a loaded backend, got the name {name}; load it with: "
            f"wlk_core.load_backend({name})"
        )
    filters = text_filters if isinstance(text_filters, list | tuple) else [text_filters]
    for kind, annotator in (("diarizer", diarizer), *(("text-filter", each) for each in filters)):
        if isinstance(annotator, str):
            name = shown(annotator)
            raise OptionError(
                f"expected a loaded {kind}, got the name {name}; load it with: "
                f"wlk_core.registry.Registry().load_annotator({kind!r}, {name})"
            )


def _chunk_samples(chunk_seconds: float, sample_rate: int) -> int:
    """Return the samples of *chunk_seconds*; OptionError if the length is invalid."""
    seconds = real_number(chunk_seconds)
    if seconds is None or not 0 < seconds <= MAX_STREAM_SECONDS:
        raise OptionError(
            f"expected `chunk_seconds` above 0 and up to {MAX_STREAM_SECONDS:.0f}, "
            f"got {shown(chunk_seconds)}"
        )
    return max(1, round(seconds * require_rate(sample_rate)))
