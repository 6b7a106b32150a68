"""Sessions as the JSON that scripts rely on: events as they happen, and the result of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.session import Commit, HypothesisChange, SilenceSpan
from wlk_core.session.records import (
    round_seconds,
    segment_record,
    silence_record,
    token_record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.processor import StreamStats
    from wlk_core.segments import Segment
    from wlk_core.session import End, LatencySummary
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence

__all__ = ["Outcome", "end_record", "event_record", "result_record"]


@attrs.define(kw_only=True)
class Outcome:
    """
    What is known of one recording's session, so far or at its end.

    Attributes:
        file: the recording, as it was named.
        backend: the backend that transcribes it.
        model: the model, as it was named.
        language: the language forced, else the one last detected.
        audio_time: the audio received so far, at the end the duration.
        stats: the processor's counters.
        latency: emission latency, known at the end.
        wall_seconds: how long it took, known at the end.
        has_begun: whether an event came.
        incomplete: why the recording was not transcribed to its end, None where it was.

    """

    file: str
    backend: str
    model: str | None
    language: str | None = None
    audio_time: float = 0.0
    stats: StreamStats | None = None
    latency: LatencySummary | None = None
    wall_seconds: float | None = None
    has_begun: bool = False
    incomplete: str | None = None

    def add(self, event: Event) -> None:
        """Update it from an event."""
        self.has_begun = True
        self.audio_time = event.audio_time
        if isinstance(event, Commit):
            detected = [
                token.detected_language for token in event.tokens if token.detected_language
            ]
            self.language = detected[-1] if detected else self.language

    def end(self, event: End, wall_seconds: float) -> None:
        """Update it from the last event, which has the figures of the session."""
        self.add(event)
        self.stats = event.stats
        self.latency = event.latency
        self.wall_seconds = wall_seconds

    @property
    def header(self) -> dict[str, Any]:
        """The fields that name a result."""
        return {
            "file": self.file,
            "backend": self.backend,
            "model": self.model,
            "language": self.language,
            "duration": round_seconds(self.audio_time),
        }


def event_record(event: Event) -> dict[str, Any] | None:
    """
    Return the fields of an event; None for one that scripts do not get.

    `end_record` describes the end.  Failures that pass are logged.
    """
    head = {"audio_time": round_seconds(event.audio_time)}
    if isinstance(event, Commit):
        return {"event": "commit"} | head | {"tokens": _tokens(event.tokens)}
    if isinstance(event, HypothesisChange):
        transcript = event.transcript
        tokens = _tokens(transcript.tokens)
        return {"event": "hypothesis"} | head | {"text": transcript.text, "tokens": tokens}
    if isinstance(event, SilenceSpan):
        return {"event": "silence"} | head | silence_record(event.silence)
    return None


def end_record(outcome: Outcome) -> dict[str, Any]:
    """Return the last event of a session that came to its end."""
    return (
        {"event": "end", "audio_time": round_seconds(outcome.audio_time)}
        | outcome.header
        | {
            "latency": None if outcome.latency is None else attrs.asdict(outcome.latency),
            "wall_seconds": outcome.wall_seconds,
            "stats": _stats(outcome.stats),
        }
    )


def result_record(
    outcome: Outcome,
    tokens: Sequence[ASRToken],
    segments: Iterable[Segment],
    silences: Iterable[Silence],
) -> dict[str, Any]:
    """
    Return everything about one recording.

    Only a result that ends before its recording has the field "incomplete", with the reason.
    """
    header = outcome.header
    if outcome.incomplete is not None:
        header |= {"incomplete": outcome.incomplete}
    return header | {
        "text": "".join(token.text for token in tokens).strip(),
        "tokens": _tokens(tokens),
        "segments": [segment_record(segment) for segment in segments],
        "silences": [silence_record(silence) for silence in silences],
        "stats": _stats(outcome.stats),
    }


def _stats(stats: StreamStats | None) -> dict[str, Any]:
    return {} if stats is None else attrs.asdict(stats)


def _tokens(tokens: Iterable[ASRToken]) -> list[dict[str, Any]]:
    return [token_record(token) for token in tokens]
