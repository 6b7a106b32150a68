"""From audio to text in one call, and from chunks to events in one loop, with asyncio twins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import aclosing, closing, suppress
from functools import partial
from itertools import chain, islice
import os
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core._arguments import shown
from wlk_core.audio.chunks import Chunker
from wlk_core.audio.convert import validate_audio
from wlk_core.audio.decode import decode_file
from wlk_core.captions import srt_text, vtt_text
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.segments import Segment, segments_from_tokens
from wlk_core.session.async_events import RecoverableEvents
from wlk_core.session.events import Commit, End, SilenceSpan
from wlk_core.session.pipeline import chunk_samples, steps, transcribe_stream
from wlk_core.session.records import (
    round_seconds,
    segment_record,
    silence_record,
    token_record,
)
from wlk_core.session.session import Session

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncGenerator, Generator, Iterable, Iterator

    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer
    from wlk_core.audio.source import AudioPath
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence
    from wlk_core.vad.gate import SilenceGate
    from wlk_core.vad.parameters import GateParameters

__all__ = ["Transcription", "astream", "atranscribe", "stream", "transcribe"]

_STEP_EVENTS = 16  # more than a step has
_PIECE_SAMPLES = 60 * SAMPLE_RATE  # a copy of the whole recording could be gigabytes


@attrs.frozen(kw_only=True)
class Transcription:
    """
    The text of a whole recording.

    Attributes:
        text: the transcript, without white space at its ends.
        words: the committed tokens in order; their texts carry their own spacing.
        segments: the words as captions.
        silences: the pauses that were left out; empty with ``vad=False``.
        language: the code last detected, else the one the stream was forced to, else None.
        duration: the length of the audio in seconds.

    """

    text: str
    words: tuple[ASRToken, ...]
    segments: tuple[Segment, ...]
    silences: tuple[Silence, ...]
    language: str | None
    duration: float

    def to_srt(self) -> str:
        """Return the text of a SubRip file."""
        return srt_text(self.words)

    def to_vtt(self) -> str:
        """Return the text of a WebVTT file."""
        return vtt_text(self.words)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, in the shape of ``wlk-core transcribe --format json``."""
        return {
            "language": self.language,
            "duration": round_seconds(self.duration),
            "text": self.text,
            "tokens": [token_record(token) for token in self.words],
            "segments": [segment_record(segment) for segment in self.segments],
            "silences": [silence_record(silence) for silence in self.silences],
        }


def transcribe(
    processor: OnlineProcessor,
    audio: AudioPath | NDArray[np.float32],
    *,
    language: str | None = None,
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
) -> Transcription:
    """
    Transcribe a whole recording with *processor*, which is finished and closed afterwards.

    Args:
        processor: a new stream of a backend.
        audio: a file of any format that FFmpeg reads, "-" for standard input, a binary file
            object, or float32[n] at 16 kHz.
        language: the code that the stream was forced to, for a recording without words.
        vad: leave pauses out, because models invent words in silence; GateParameters choose
            when speech begins and ends.
        chunk_seconds: how much audio the processor is given at a time.

    Raises:
        AudioFormatError: the audio is not what `decode_file` or a stream accepts, or is damaged.
        OSError: the file cannot be read.
        BackendError: the engine failed for good.
        OptionError: `chunk_seconds` is not above 0.

    """
    builder = _TranscriptionBuilder(language)
    with closing(processor), closing(_pieces(audio)) as pieces:
        for event in stream(processor, pieces, vad=vad, chunk_seconds=chunk_seconds):
            builder.add(event)
    return builder.transcription()


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


async def atranscribe(
    processor: OnlineProcessor,
    audio: AudioPath | NDArray[np.float32],
    *,
    language: str | None = None,
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
) -> Transcription:
    """Transcribe a whole recording without blocking the event loop; see `transcribe`, `astream`."""
    builder = _TranscriptionBuilder(language)
    with closing(processor):
        events = astream(processor, _pieces(audio), vad=vad, chunk_seconds=chunk_seconds)
        async with aclosing(events):
            async for event in events:
                builder.add(event)
    return builder.transcription()


def astream(
    processor: OnlineProcessor,
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
    processor: OnlineProcessor,
    chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
    late: deque[Event],
    *,
    vad: bool | GateParameters,
    chunk_seconds: float,
) -> AsyncGenerator[Event]:
    failure: AudioFormatError | OSError | None = None
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


def _pieces(audio: AudioPath | NDArray[np.float32]) -> Generator[NDArray[np.float32]]:
    """Yield the audio of a file or an array in pieces."""
    if isinstance(audio, np.ndarray):
        validate_audio(audio)
        for start in range(0, len(audio), _PIECE_SAMPLES):
            yield audio[start : start + _PIECE_SAMPLES]
    elif isinstance(audio, str | os.PathLike) or hasattr(audio, "read"):
        yield from decode_file(audio)
    else:
        raise AudioFormatError(
            f"expected a path, a binary file or a numpy array, got {type(audio).__name__}; "
            "convert samples with numpy.asarray(samples, dtype='float32')"
        )


def _gate(*, vad: bool | GateParameters) -> SilenceGate | None:
    if vad is False:
        return None
    from wlk_core.vad import silence_gate  # noqa: PLC0415 -- loads a model

    return silence_gate(vad)


class _TranscriptionBuilder:
    """Collect the events of a stream."""

    def __init__(self, language: str | None) -> None:
        self._language = language
        self._words: list[ASRToken] = []
        self._silences: list[Silence] = []
        self._duration = 0.0

    def add(self, event: Event) -> None:
        """Keep what belongs into the result."""
        if isinstance(event, Commit):
            self._words += event.tokens
        elif isinstance(event, SilenceSpan):
            self._silences.append(event.silence)
        elif isinstance(event, End):
            self._duration = event.audio_time

    def transcription(self) -> Transcription:
        """Return the result."""
        detected = [word.detected_language for word in self._words if word.detected_language]
        return Transcription(
            text="".join(word.text for word in self._words).strip(),
            words=tuple(self._words),
            segments=segments_from_tokens(self._words),
            silences=tuple(self._silences),
            language=detected[-1] if detected else self._language,
            duration=self._duration,
        )
