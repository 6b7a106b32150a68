"""Transcribe a recording in one call, or live audio as events, with or without asyncio."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import ExitStack, closing, suppress
from functools import partial
import logging
import os
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np

from wlk_core.audio import sealed, valid_copy, validate_audio
from wlk_core.errors import AudioFormatError, OptionError, WLKError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown
from wlk_live.audio.decode import decode_file
from wlk_live.audio.pcm import Chunker, rechunk, require_rate
from wlk_live.captions.segments import Layout, Segment, segments_from_tokens, srt_text, vtt_text
from wlk_live.records import round_seconds, segment_record, span_record, token_record
from wlk_live.session.driver import Driver, reading
from wlk_live.session.events import End, Event, Failure, SilenceSpan
from wlk_live.session.inbox import MAX_PIECE
from wlk_live.session.session import Session
from wlk_live.session.timeline import Timeline
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

    from wlk_core.annotators import Diarizer
    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.tokens import ASRToken, Silence
    from wlk_live.audio.decode import AudioPath
    from wlk_live.vad import GateParameters

T = TypeVar("T")

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class Transcription:
    """The transcript of a whole recording."""

    text: str  #: without white space at its ends
    words: tuple[ASRToken, ...]  #: the committed tokens, each with its own spacing
    segments: tuple[Segment, ...]  #: the words as captions
    silences: tuple[Silence, ...]  #: the pauses that were left out; empty with ``vad=False``
    language: str | None  #: detected for most words, else the one that was requested, else None
    duration: float  #: the length of the audio in seconds

    def to_srt(
        self, *, max_line_width: int = 42, max_lines: int = 2, speaker_names: Sequence[str] = ()
    ) -> str:
        """
        Return the content of a SubRip file, in captions of *max_lines* lines.

        A wide character takes two of the *max_line_width* columns.  *speaker_names* stand in place
        of "Speaker 1", "Speaker 2" and so on.
        """
        layout = Layout(
            max_line_width=max_line_width, max_lines=max_lines, speaker_names=speaker_names
        )
        return srt_text(self.words, layout, language=self.language)

    def to_vtt(
        self, *, max_line_width: int = 42, max_lines: int = 2, speaker_names: Sequence[str] = ()
    ) -> str:
        """Return the content of a WebVTT file; the arguments are those of `to_srt`."""
        layout = Layout(
            max_line_width=max_line_width, max_lines=max_lines, speaker_names=speaker_names
        )
        return vtt_text(self.words, layout, language=self.language)

    def to_dict(self, *, speaker_names: Sequence[str] = ()) -> dict[str, Any]:
        """
        Return plain data for JSON.

        The fields are those of ``wlk-core transcribe --format json`` without `file`, `backend`,
        `model` and `stats`.  *speaker_names* are as in `to_srt`.
        """
        names = Layout(speaker_names=speaker_names).speaker_names
        return {
            "language": self.language,
            "duration": round_seconds(self.duration),
            "text": self.text,
            "tokens": [token_record(token, names) for token in self.words],
            "segments": [segment_record(segment, names) for segment in self.segments],
            "silences": [span_record(silence) for silence in self.silences],
        }


def transcribe(
    backend: Backend,
    audio: AudioPath | NDArray[np.float32],
    *,
    language: str | None = None,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    sample_rate: int | None = None,
    diarizer: Diarizer | None = None,
    **options: Any,
) -> Transcription:
    """
    Transcribe a whole recording.

    Args:
        backend: a loaded model.
        audio: a file of any format that FFmpeg reads, "-" for standard input, a binary file
            object, the bytes of a file, or float32[n].
        language: a code that the spec declares; None to detect it.
        task: "transcribe" or "translate".
        vad: leave pauses out, because models invent words in silence; GateParameters choose
            when speech begins and ends.
        chunk_seconds: how much audio the model is given at a time.
        sample_rate: samples a second of an array, by default 16,000; a file states its own.
        diarizer: finds the speaker of each word; the words are those without it.  It is reset
            first, so that it can be used for one recording after another.  The caller closes it.
        options: the spec's options of scope "stream".  If they include neither a policy nor an
            option of one, the backend's policy for recordings is used, if it has one.

    Raises:
        AudioFormatError: the audio is not what `decode_file` or a stream accepts, or is damaged.
        OSError: the file cannot be read.
        BackendError: the engine failed for good.
        OptionError: an option is unknown or unsupported, `chunk_seconds` is not above 0, or
            `sample_rate` is given for a file.

    """
    options = backend.spec.recording_options(options)
    pieces: Generator[NDArray[np.float32]]
    if isinstance(audio, np.ndarray):
        validate_audio(audio)  # all of it, before the model runs
        # Copied piece by piece, because a copy of the whole recording could take gigabytes.
        pieces = (
            sealed(np.array(audio[start : start + MAX_PIECE]))
            for start in range(0, len(audio), MAX_PIECE)
        )
    elif not isinstance(audio, str | os.PathLike | bytes | bytearray | memoryview) and not hasattr(
        audio, "read"
    ):
        raise AudioFormatError(
            f"expected a path, a binary file or a numpy array, got {type(audio).__name__}; "
            "convert samples with numpy.asarray(samples, dtype='float32')"
        )
    elif sample_rate is not None:
        raise OptionError("`sample_rate` is only for arrays; a file states its own: leave it out")
    else:
        pieces = (sealed(piece) for piece in decode_file(audio))  # validated by the decoder
    events = stream(
        backend,
        pieces,
        language=language,
        task=task,
        vad=vad,
        chunk_seconds=chunk_seconds,
        sample_rate=SAMPLE_RATE if sample_rate is None else sample_rate,
        diarizer=diarizer,
        **options,
    )
    timeline = Timeline()
    silences: list[Silence] = []
    duration = 0.0
    with closing(pieces), closing(events):
        if diarizer is not None:
            diarizer.reset()
        for event in events:
            timeline.add(event)
            if isinstance(event, SilenceSpan):
                silences.append(event.silence)
            elif isinstance(event, End):
                duration = event.audio_time
    words = timeline.tokens
    detected = [word.detected_language for word in words if word.detected_language]
    spoken = Counter(detected).most_common(1)[0][0] if detected else language
    return Transcription(
        text="".join(word.text for word in words).strip(),
        words=tuple(words),
        segments=segments_from_tokens(words, language=spoken),
        silences=tuple(silences),
        language=spoken,
        duration=duration,
    )


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
    **options: Any,
) -> Generator[Event]:
    """
    Transcribe chunks of float32[n] at `sample_rate`, n >= 0, and yield events as they happen.

    `language`, `task` and `options` are those of `create_processor`.  Each chunk is copied, so that
    its memory can be reused, and resampled if `sample_rate` is not 16 kHz.  The model runs whenever
    `chunk_seconds` of audio have arrived.  With `vad`, pauses are left out, because models invent
    words in silence; GateParameters choose when speech begins and ends.  A new or reset `diarizer`
    finds the speakers, which are events of their own, after the words; the caller closes it.
    Leaving the loop early closes the stream without a finish; close the generator to do so at a
    known time.

    Errors, including those that *chunks* raises, are raised after everything committed before them.
    If *chunks* raises a WLKError or OSError, the audio before it is transcribed to its end
    first, so that a damaged file gives all the text of its undamaged part.

    Yields:
        The events of a Session in the order in which they happen, and one End.

    Raises:
        AudioFormatError: a chunk is not one channel of finite float32.
        BackendError: the engine failed for good.
        OptionError: an option is unknown or unsupported, or `chunk_seconds` is not above 0.

    """
    samples, gate = _chunk_samples(chunk_seconds, sample_rate), silence_gate(vad)
    if isinstance(chunks, np.ndarray) and chunks.ndim == 1:  # each sample would be a chunk
        raise AudioFormatError("expected an iterable of chunks, got an array; call transcribe")
    _require_loaded(diarizer)
    processor = backend.create_processor(language=language, task=task, **options)
    session = Session(processor, gate=gate, rate=sample_rate, diarizer=diarizer)
    return _events(processor, session, chunks, samples)


def _events(
    processor: OnlineProcessor,
    session: Session,
    chunks: Iterable[NDArray[np.float32]],
    samples: int,
) -> Generator[Event]:
    with closing(processor):
        pieces = map(sealed, rechunk(map(valid_copy, chunks), samples))
        for events in _steps(Driver(session, reading(pieces))):
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
    backend.spec.stream_options(options)
    pieces = aiter(chunks)
    samples = _chunk_samples(chunk_seconds, sample_rate)
    _require_loaded(diarizer)

    def open_session(stack: ExitStack) -> Session:
        gate = silence_gate(vad)
        processor = backend.create_processor(language=language, task=task, **options)
        stack.enter_context(closing(processor))
        return Session(processor, gate=gate, rate=sample_rate, diarizer=diarizer)

    return _async_events(open_session, pieces, samples)


async def _async_events(
    open_session: Callable[[ExitStack], Session],
    pieces: AsyncIterator[NDArray[np.float32]],
    samples: int,
) -> AsyncGenerator[Event]:
    with ExitStack() as stack:
        session = await _in_thread(partial(open_session, stack))
        arrived = _Arrived(samples)
        steps = _steps(Driver(session, arrived.read))
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
        self._failure: WLKError | OSError | None = None

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
        except (WLKError, OSError) as error:
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


def _require_loaded(diarizer: object) -> None:
    if isinstance(diarizer, str):
        raise OptionError(
            f"expected a loaded diarizer, got the name {shown(diarizer)}; load it with: "
            f"wlk_core.registry.Registry().load_annotator('diarizer', {shown(diarizer)})"
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
