"""A recording to its text in one call, and live audio to events, with and without asyncio."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack, closing, suppress
from functools import partial
import logging
import os
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np

from wlk_core.audio.convert import sealed, valid_copy, validate_audio
from wlk_core.audio.decode import decode_file
from wlk_core.audio.pcm import Chunker, require_rate
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.online.input_queue import MAX_PIECE
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.segments import (
    Segment,
    round_seconds,
    segment_record,
    segments_from_tokens,
    span_record,
    srt_text,
    token_record,
    vtt_text,
)
from wlk_core.session.events import Commit, End, Event, Failure, SilenceSpan
from wlk_core.session.session import Session
from wlk_core.untrusted import real_number, shown
from wlk_core.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        AsyncIterator,
        Callable,
        Generator,
        Iterable,
        Iterator,
    )

    from numpy.typing import NDArray

    from wlk_core.audio.decode import AudioPath
    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.tokens import ASRToken, Silence
    from wlk_core.vad import GateParameters

T = TypeVar("T")

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class Transcription:
    """The text of a whole recording."""

    text: str  #: the transcript, without white space at its ends
    words: tuple[ASRToken, ...]  #: the committed tokens; their texts carry their own spacing
    segments: tuple[Segment, ...]  #: the words as captions
    silences: tuple[Silence, ...]  #: the pauses that were left out; empty with ``vad=False``
    language: str | None  #: of most words, else the one the stream was forced to, else None
    duration: float  #: the length of the audio in seconds

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
        sample_rate: of an array, by default 16,000 Hz; a file names its own.
        options: the spec's options of scope "stream".  Where they name neither a policy nor an
            option of one, the policy for recordings is taken if the backend has it.

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
        validate_audio(audio)  # all of it, before the model works
        # A copy of the whole recording could be gigabytes.
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
        raise OptionError(
            "`sample_rate` is that of an array, and a file names its own: leave it out"
        )
    else:
        pieces = decode_file(audio)
    events = stream(
        backend,
        pieces,
        language=language,
        task=task,
        vad=vad,
        chunk_seconds=chunk_seconds,
        sample_rate=SAMPLE_RATE if sample_rate is None else sample_rate,
        **options,
    )
    words: list[ASRToken] = []
    silences: list[Silence] = []
    duration = 0.0
    with closing(pieces), closing(events):
        for event in events:
            if isinstance(event, Commit):
                words += event.tokens
            elif isinstance(event, SilenceSpan):
                silences.append(event.silence)
            elif isinstance(event, End):
                duration = event.audio_time
    detected = [word.detected_language for word in words if word.detected_language]
    return Transcription(
        text="".join(word.text for word in words).strip(),
        words=tuple(words),
        segments=segments_from_tokens(words),
        silences=tuple(silences),
        language=Counter(detected).most_common(1)[0][0] if detected else language,
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
    if isinstance(chunks, np.ndarray) and chunks.ndim == 1:  # else its samples would be the chunks
        raise AudioFormatError("expected an iterable of chunks, got an array; call transcribe")
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
) -> AsyncGenerator[Event]:
    """
    Transcribe chunks without blocking the event loop; see `stream`.

    Every call of the model runs in a thread of asyncio, one at a time, and so does the opening of
    the stream with the first ``anext``, because it may wait for another server.  A thread is held
    only while the model works.  Two calls may come from different threads; run a backend that
    declares ``thread_affinity="same-thread"`` with `stream` in a thread of your own.

    A consumer that is cancelled, or that calls `aclose`, closes the stream.  The cancellation waits
    for the step that is running, because no engine can be interrupted, so that the backend can be
    closed right afterwards.  What that step commits is dropped with the audio that was not decoded:
    end the source instead where every word counts.  Another task cancels that of the consumer:
    `aclose` during its ``anext`` raises RuntimeError, as of any asynchronous generator.
    """
    # What is wrong is refused now, and not with the first anext.
    backend.spec.stream_options(options)
    pieces = aiter(chunks)
    chunker = new_chunker(chunk_seconds, sample_rate)

    def opened(stack: ExitStack) -> Session:
        gate = silence_gate(vad)
        processor = backend.create_processor(language=language, task=task, **options)
        stack.enter_context(closing(processor))
        return Session(processor, gate=gate, rate=sample_rate)

    return _events(opened, pieces, chunker)


async def _events(
    opened: Callable[[ExitStack], Session],
    pieces: AsyncIterator[NDArray[np.float32]],
    chunker: Chunker,
) -> AsyncGenerator[Event]:
    with ExitStack() as stack:
        session = await _in_thread(partial(opened, stack))
        while not session.is_over:
            piece, failure = None, None
            try:
                piece = await anext(pieces, None)
                piece = None if piece is None else valid_copy(piece)
            except (AudioFormatError, OSError) as error:  # as in `run_session`
                piece, failure = None, error
            steps = _steps(session, chunker, piece, failure)
            while (events := await _in_thread(partial(next, steps, None))) is not None:
                for event in events:
                    yield event


async def _in_thread(call: Callable[[], T]) -> T:
    # A future and not a task, which asyncio.run would cancel while its thread keeps running.
    made = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        await asyncio.wait([made])
    except asyncio.CancelledError:
        # The stream is closed when the thread is done with it, however often this is cancelled.
        while not made.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([made])
        made.exception()  # asyncio would log an error that nobody asked for
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
    session: Session, chunker: Chunker, piece: NDArray[np.float32] | None, failure: Exception | None
) -> Iterator[list[Event]]:
    # The events of each step after a piece, of which None is the end of the audio, because of
    # *failure* if there was one.  That is raised in place of the End, and a final Failure as what
    # it is, after every event before it.  Failures that pass are logged: the words come all the
    # same.
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
    """Return a Chunker for chunks of *chunk_seconds*; OptionError for an impossible length."""
    seconds = real_number(chunk_seconds)
    if seconds is None or not 0 < seconds <= MAX_STREAM_SECONDS:
        raise OptionError(
            f"expected `chunk_seconds` above 0 and up to {MAX_STREAM_SECONDS:.0f}, "
            f"got {shown(chunk_seconds)}"
        )
    return Chunker(max(1, round(seconds * require_rate(sample_rate))))
