"""Tokens, events and outcomes as the JSON that scripts rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.session import Commit, HypothesisChange, SilenceSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.processor import StreamStats
    from wlk_core.segments import Segment
    from wlk_core.session import End, LatencySummary
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence

__all__ = ["Outcome", "event_record", "segment_record", "silence_record", "token_record"]


@attrs.define(kw_only=True)
class Outcome:
    """
    What is known of one recording's session, so far or at its end.

    Attributes:
        file: the recording, as it was named.
        backend: the backend that heard it.
        model: the model, as it was named.
        language: the language forced, else the one last detected.
        audio_time: the audio received so far, at the end the duration.
        stats: the processor's counters.
        latency: emission latency, known at the end.
        wall_seconds: how long it took, known at the end.
        has_begun: whether anything came of it.

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

    def note(self, event: Event) -> None:
        """Take down what *event* tells."""
        self.has_begun = True
        self.audio_time = event.audio_time
        if isinstance(event, Commit):
            heard = [token.detected_language for token in event.tokens if token.detected_language]
            self.language = heard[-1] if heard else self.language

    def end(self, event: End) -> None:
        """Take down the figures of the end."""
        self.note(event)
        self.stats = event.stats
        self.latency = event.latency
        self.wall_seconds = event.wall_seconds

    @property
    def header(self) -> dict[str, Any]:
        """The fields that name a result."""
        return {
            "file": self.file,
            "backend": self.backend,
            "model": self.model,
            "language": self.language,
            "duration": seconds(self.audio_time),
        }


def token_record(token: ASRToken) -> dict[str, Any]:
    """Return a token's fields."""
    return {
        "start": seconds(token.start),
        "end": seconds(token.end),
        "text": token.text,
        "probability": None if token.probability is None else round(token.probability, 4),
        "speaker": token.speaker,
        "language": token.detected_language,
    }


def segment_record(segment: Segment) -> dict[str, Any]:
    """Return a caption's fields."""
    return {
        "start": seconds(segment.start),
        "end": seconds(segment.end),
        "text": segment.text,
        "speaker": segment.speaker,
    }


def silence_record(silence: Silence) -> dict[str, Any]:
    """Return a pause's fields."""
    return {"start": seconds(silence.start), "end": seconds(silence.end)}


def stats_record(stats: StreamStats | None) -> dict[str, Any]:
    """Return every counter by name."""
    return {} if stats is None else attrs.asdict(stats)


def event_record(event: Event) -> dict[str, Any] | None:
    """Return what happened, None for the end, which is told with its outcome."""
    when = {"audio_time": seconds(event.audio_time)}
    if isinstance(event, Commit):
        return {"event": "commit"} | when | {"tokens": _tokens(event.tokens)}
    if isinstance(event, HypothesisChange):
        shown = event.transcript
        tokens = _tokens(shown.tokens)
        return {"event": "hypothesis"} | when | {"text": shown.text, "tokens": tokens}
    if isinstance(event, SilenceSpan):
        return {"event": "silence"} | when | silence_record(event.silence)
    return None


def end_record(outcome: Outcome) -> dict[str, Any]:
    """Return the last event of a session that came to its end."""
    return (
        {"event": "end", "audio_time": seconds(outcome.audio_time)}
        | outcome.header
        | {
            "latency": None if outcome.latency is None else attrs.asdict(outcome.latency),
            "wall_seconds": outcome.wall_seconds,
            "stats": stats_record(outcome.stats),
        }
    )


def result_record(
    outcome: Outcome,
    tokens: Sequence[ASRToken],
    segments: Iterable[Segment],
    silences: Iterable[Silence],
) -> dict[str, Any]:
    """Return everything about one recording."""
    return outcome.header | {
        "text": "".join(token.text for token in tokens).strip(),
        "tokens": _tokens(tokens),
        "segments": [segment_record(segment) for segment in segments],
        "silences": [silence_record(silence) for silence in silences],
        "stats": stats_record(outcome.stats),
    }


def seconds(time: float) -> float:
    """Round a time to the tenth of a millisecond: finer than a sample is no information."""
    return round(time, 4)


def _tokens(tokens: Iterable[ASRToken]) -> list[dict[str, Any]]:
    return [token_record(token) for token in tokens]
