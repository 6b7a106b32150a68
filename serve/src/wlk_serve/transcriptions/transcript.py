"""The transcript of a recording: its events in, OpenAI's answers out."""

from __future__ import annotations

from collections import Counter
import json
import math
from typing import TYPE_CHECKING, Any, TypeAlias
import zlib

from wlk_core.errors import BackendError
from wlk_core.segments import round_seconds, segments_with_tokens, srt_text, vtt_text
from wlk_core.session import Commit, End, Endpoint, Failure, SpeakerTurn
from wlk_core.session.timeline import with_speakers
from wlk_serve.errors import RequestError
from wlk_serve.speakers import SpeakerSegments
from wlk_serve.words import Deltas, detected_languages, logprob_records, speaker_name, word_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.segments import Segment
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, SpeakerSpan
    from wlk_serve.transcriptions.protocol import TranscriptionRequest

__all__ = ["Transcript"]

Json: TypeAlias = "dict[str, Any]"


class Transcript:
    """
    What a recording has become so far; a plain object.

    Joined deltas are the text of the last event.  A speaker is known *speaker_delay* seconds late;
    None where no speakers are found.
    """

    def __init__(self, request: TranscriptionRequest, speaker_delay: float | None = None) -> None:
        self._request = request
        self.tokens: list[ASRToken] = []
        self._deltas = Deltas()
        self._segments: list[Json] = []  # of one speaker each
        self._utterances = 1
        self.seconds = 0.0  #: the length of the audio, known at its end
        self._spans: list[SpeakerSpan] = []
        self._speakers: SpeakerSegments | None = None
        if request.has_speakers and speaker_delay is not None:
            self._speakers = SpeakerSegments(speaker_delay)

    def spoken_words(self) -> list[ASRToken]:
        """Return the words with their speakers, where those were found."""
        return with_speakers(self.tokens, sorted(self._spans, key=lambda span: span.start))

    def add(self, event: Event) -> list[Json]:
        """
        Apply what happened; return the server-sent events that it brings.

        Raises:
            WLKError: the recording, the engine or the diarizer failed.

        """
        records: list[Json] = []
        match event:
            case Commit():
                self.tokens += event.tokens
                if delta := self._deltas.add(event.tokens):
                    words = word_records(event.tokens)
                    records.append(
                        {"type": "transcript.text.delta", "delta": delta, "words": words}
                        | self._logprobs(event.tokens)
                    )
            case SpeakerTurn():
                self._spans.append(event.span)
            case End():
                self.seconds = event.audio_time
            case Failure(is_final=True):
                raise event.error
            case Failure(error=BackendError(retryable=False)):
                # It is switched off, and the answer needs it.  The session has logged the cause.
                raise RequestError(
                    "the diarizer failed; the log of the server has the cause",
                    status=500,
                    code="engine_failed",
                ) from event.error
        if self._speakers is not None:
            records += self._certain_segments(event, self._speakers)
        return records

    def done(self) -> Json:
        """Return the last server-sent event."""
        record = {"type": "transcript.text.done", **self._plain_record()}
        return {**record, "words": word_records(self.tokens)}

    def render(self) -> tuple[str, str]:
        """Return the media type and the body of the response."""
        match self._request.response_format:
            case "text":
                return "text/plain; charset=utf-8", self._deltas.text + "\n"
            case "srt":
                return "text/plain; charset=utf-8", srt_text(self.tokens)
            case "vtt":
                return "text/vtt; charset=utf-8", vtt_text(self.tokens)
            case "verbose_json":
                record = self._verbose_record()
            case "diarized_json":
                record = {
                    "task": self._request.task,
                    "duration": round_seconds(self.seconds),
                    "text": self._deltas.text,
                    "segments": self._segments,
                    "usage": self._usage(),
                }
            case _:
                record = self._plain_record()
        return "application/json", json.dumps(record)

    def _certain_segments(self, event: Event, speakers: SpeakerSegments) -> list[Json]:
        name = str(self._utterances)
        match event:
            case Commit():
                speakers.extend(name, event.tokens)
            case Endpoint():
                speakers.advance(event.time)
                speakers.end(name)
                self._utterances += 1
            case SpeakerTurn():
                speakers.add_span(event.span)
            case End():
                speakers.end(name)
                speakers.settle()
        records = [
            {
                "type": "transcript.text.segment",
                "id": f"seg_{number}",
                "start": round_seconds(line.start),
                "end": round_seconds(line.end),
                "text": line.text,
                "speaker": speaker_name(line.speaker),
            }
            for number, (_, line) in enumerate(speakers.take(), len(self._segments))
        ]
        self._segments += records
        return records

    def _plain_record(self) -> Json:
        record: Json = {"text": self._deltas.text, "usage": self._usage()}
        record |= self._logprobs(self.tokens)
        if languages := detected_languages(self.tokens):
            record["languages"] = languages
        return record

    def _verbose_record(self) -> Json:
        counts = Counter(t.detected_language for t in self.tokens if t.detected_language)
        record: Json = {
            "task": self._request.task,
            "language": counts.most_common(1)[0][0] if counts else self._request.language,
            "duration": round_seconds(self.seconds),
            "text": self._deltas.text,
            "usage": self._usage(),
        }
        if "segment" in self._request.granularities:
            segments = enumerate(segments_with_tokens(self.tokens))
            record["segments"] = [
                _segment_record(number, segment, tokens) for number, (segment, tokens) in segments
            ]
        if "word" in self._request.granularities:
            record["words"] = word_records(self.tokens)
        return record

    def _logprobs(self, tokens: Sequence[ASRToken]) -> Json:
        if not self._request.has_logprobs:
            return {}
        return {"logprobs": logprob_records(tokens) or []}

    def _usage(self) -> Json:
        return {"type": "duration", "seconds": round_seconds(self.seconds)}


def _segment_record(number: int, segment: Segment, tokens: Sequence[ASRToken]) -> dict[str, Any]:
    """Return a segment of *tokens*; what only Whisper's own decoder has is absent or neutral."""
    text = segment.text.encode("utf-8", "replace")
    record: dict[str, Any] = {
        "id": number,
        "seek": 0,
        "start": round_seconds(segment.start),
        "end": round_seconds(segment.end),
        "text": segment.text,
        "tokens": [],
        "temperature": 0.0,
        "compression_ratio": round(len(text) / len(zlib.compress(text)), 4),
    }
    logprobs = logprob_records(tokens)
    if logprobs:
        mean = math.fsum(entry["logprob"] for entry in logprobs) / len(logprobs)
        record["avg_logprob"] = round(mean, 6)
    if segment.speaker is not None:
        record["speaker"] = speaker_name(segment.speaker)
    return record
