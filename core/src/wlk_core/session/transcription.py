"""From a recording to its text in one call."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
import os
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.audio.convert import validate_audio
from wlk_core.audio.decode import decode_file
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.segments import Segment, segments_from_tokens, srt_text, vtt_text
from wlk_core.session.event_streams import stream
from wlk_core.session.events import Commit, End, SilenceSpan
from wlk_core.session.records import (
    round_seconds,
    segment_record,
    silence_record,
    token_record,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.audio.decode import AudioPath
    from wlk_core.backend import Backend
    from wlk_core.tokens import ASRToken, Silence
    from wlk_core.vad import GateParameters

__all__ = ["Transcription", "transcribe"]

_PIECE_SAMPLES = 60 * SAMPLE_RATE


@attrs.frozen(kw_only=True)
class Transcription:
    """
    The text of a whole recording.

    Attributes:
        text: the transcript, without white space at its ends.
        words: the committed tokens in order; their texts carry their own spacing.
        segments: the words as captions.
        silences: the pauses that were left out; empty with ``vad=False``.
        language: the code of most words, else the one the stream was forced to, else None.
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
    if isinstance(audio, np.ndarray):
        validate_audio(audio)  # all of it, before the model works
        # A copy of the whole recording could be gigabytes.
        pieces = (
            audio[start : start + _PIECE_SAMPLES] for start in range(0, len(audio), _PIECE_SAMPLES)
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
