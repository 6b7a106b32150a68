"""Transcribe whole recordings: one in a call, or many at a time."""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
import os
from queue import Empty, SimpleQueue
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np

from wlk_core.audio import sealed, validate_audio
from wlk_core.errors import AudioFormatError, OptionError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import shown
from wlk_live.audio.decode import decode_file
from wlk_live.captions.segments import Layout, Segment, segments_from_tokens, srt_text, vtt_text
from wlk_live.records import round_seconds, segment_record, span_record, token_record
from wlk_live.session.events import End, SilenceSpan
from wlk_live.session.inbox import MAX_PIECE
from wlk_live.session.streams import require_loaded, stream
from wlk_live.session.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer, TextFilter
    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.tokens import ASRToken, Silence
    from wlk_live.audio.decode import AudioPath
    from wlk_live.vad import GateParameters

Recording: TypeAlias = "AudioPath | NDArray[np.float32]"
"""What `transcribe` reads: a path, a binary file, the bytes of a file, or samples."""


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
    text_filters: Sequence[TextFilter] = (),
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
        text_filters: rewrite the words, each those of the one before it; `ASRToken.spoken` keeps
            them as spoken.  They are reset and closed as the diarizer.
        options: the spec's options of scope "stream".  If they include neither a policy nor an
            option of one, the backend's policy for recordings is used, if it has one.

    Raises:
        AudioFormatError: the audio is not what `decode_file` or a stream accepts, or is damaged.
        OSError: the file cannot be read.
        BackendError: the engine failed for good.
        OptionError: an option is unknown or unsupported, `chunk_seconds` is not above 0, or
            `sample_rate` is given for a file.

    """
    require_loaded(backend, diarizer, text_filters)
    return _transcribe(
        backend,
        _pieces(audio, sample_rate),
        language=language,
        task=task,
        vad=vad,
        chunk_seconds=chunk_seconds,
        sample_rate=SAMPLE_RATE if sample_rate is None else sample_rate,
        diarizer=diarizer,
        text_filters=text_filters,
        **backend.spec.recording_options(options),
    )


def transcribe_many(
    backend: Backend,
    recordings: Iterable[Recording],
    *,
    language: str | None = None,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
    chunk_seconds: float = 1.0,
    sample_rate: int | None = None,
    open_diarizer: Callable[[], Diarizer] | None = None,
    open_text_filters: Callable[[], Sequence[TextFilter]] | None = None,
    **options: Any,
) -> Generator[Transcription | WLKError | OSError]:
    """
    Transcribe many recordings, as many at a time as the backend batches.

    The words of each are those of `transcribe`, whose arguments these are.  `open_diarizer` returns
    a new diarizer, of which each recording that is transcribed at the same time needs its own, and
    `open_text_filters` new text filters; they are closed at the end.  *recordings* may be a
    generator: the next one is taken when a place is free.  Closing the generator stops the
    recordings that are being transcribed.

    Yields:
        The transcription of each recording in their order, or the error that `transcribe` raised
        for it.

    Raises:
        OptionError: an option is unknown or unsupported, for every recording.

    """
    require_loaded(backend)
    if isinstance(recordings, str | bytes | os.PathLike | np.ndarray):
        raise AudioFormatError(
            f"expected a list of recordings, got one, {shown(recordings)}; call transcribe for it"
        )
    is_over = threading.Event()

    def attempt(recording: Recording) -> Transcription | WLKError | OSError:
        try:
            with annotators.lent() as lent:
                return _transcribe(
                    backend,
                    _until(is_over, _pieces(recording, sample_rate)),
                    language=language,
                    task=task,
                    vad=vad,
                    chunk_seconds=chunk_seconds,
                    sample_rate=SAMPLE_RATE if sample_rate is None else sample_rate,
                    **lent,
                    **backend.spec.recording_options(options),
                )
        except OptionError:
            raise  # every other recording would be refused too
        except (WLKError, OSError) as error:
            return error

    streams = streams_at_once(backend.spec)
    annotators = _Annotators(open_diarizer, open_text_filters)
    with closing(annotators), ThreadPoolExecutor(streams) as pool:
        try:
            results: deque[Future[Transcription | WLKError | OSError]] = deque()
            for recording in recordings:
                running = [result for result in results if not result.done()]
                if len(running) == streams:
                    wait(running, return_when=FIRST_COMPLETED)
                while results and results[0].done():
                    yield results.popleft().result()
                results.append(pool.submit(attempt, recording))
            while results:
                yield results.popleft().result()
        finally:
            is_over.set()


def streams_at_once(spec: BackendSpec) -> int:
    """Return how many recordings are best transcribed at once: as many as the backend batches."""
    # Without batching calls only wait for each other, or for a server that has other clients.
    if "batching" not in spec.capabilities:
        return 1
    return spec.max_concurrent_calls or os.cpu_count() or 1


class _Annotators:
    """Annotators for one recording at a time each, opened when all others are in use."""

    def __init__(
        self,
        open_diarizer: Callable[[], Diarizer] | None,
        open_text_filters: Callable[[], Sequence[TextFilter]] | None,
    ) -> None:
        self._open_diarizer = open_diarizer
        self._open_text_filters = open_text_filters
        self._idle: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._opened = ExitStack()

    @contextmanager
    def lent(self) -> Iterator[dict[str, Any]]:
        """Yield annotators, as arguments of `_transcribe`."""
        try:
            annotators = self._idle.get_nowait()
        except Empty:
            annotators = self._open()
        try:
            yield annotators
        finally:
            self._idle.put(annotators)

    def _open(self) -> dict[str, Any]:
        diarizer = None if self._open_diarizer is None else self._open_diarizer()
        if diarizer is not None:
            self._opened.enter_context(closing(diarizer))
        filters = () if self._open_text_filters is None else tuple(self._open_text_filters())
        for each in filters:
            self._opened.enter_context(closing(each))
        return {"diarizer": diarizer, "text_filters": filters}

    def close(self) -> None:
        """Close every annotator."""
        self._opened.close()


def _until(
    is_over: threading.Event, pieces: Generator[NDArray[np.float32]]
) -> Generator[NDArray[np.float32]]:
    with closing(pieces):
        for piece in pieces:
            if is_over.is_set():
                raise CancelledError  # nobody asks for the result
            yield piece


def _pieces(audio: Recording, sample_rate: int | None) -> Generator[NDArray[np.float32]]:
    """Return the audio in pieces; raises what `transcribe` raises for an invalid argument."""
    if isinstance(audio, np.ndarray):
        validate_audio(audio)  # all of it, before the model runs
        # Copied piece by piece, because a copy of the whole recording could take gigabytes.
        return (
            sealed(np.array(audio[start : start + MAX_PIECE]))
            for start in range(0, len(audio), MAX_PIECE)
        )
    if not isinstance(audio, str | os.PathLike | bytes | bytearray | memoryview) and not hasattr(
        audio, "read"
    ):
        raise AudioFormatError(
            f"expected a path, a binary file or a numpy array, got {type(audio).__name__}; "
            "convert samples with numpy.asarray(samples, dtype='float32'); for several recordings "
            "call transcribe_many"
        )
    if sample_rate is not None:
        raise OptionError("`sample_rate` is only for arrays; a file states its own: leave it out")
    return (sealed(piece) for piece in decode_file(audio))  # validated by the decoder


def _transcribe(
    backend: Backend,
    pieces: Generator[NDArray[np.float32]],
    *,
    language: str | None,
    diarizer: Diarizer | None,
    text_filters: Sequence[TextFilter],
    **arguments: Any,
) -> Transcription:
    events = stream(
        backend,
        pieces,
        language=language,
        diarizer=diarizer,
        text_filters=text_filters,
        **arguments,
    )
    timeline = Timeline()
    silences: list[Silence] = []
    duration = 0.0
    with closing(pieces), closing(events):
        for annotator in (diarizer, *text_filters):
            if annotator is not None:
                annotator.reset()
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
