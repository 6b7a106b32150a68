"""
The events that a session reports.

`audio_time` is the stream time, in seconds, of the end of the audio received by then.  Every event
has `shifted`, for another clock, and `to_dict`, plain data for JSON.  ``wlk-core transcribe
--format jsonl`` writes that of commits, hypotheses, silences, translations and the end, to which it
adds `file`, `backend`, `model`, `language`, `duration` and `wall_seconds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from wlk_live.records import (
    round_seconds,
    rounded,
    span_record,
    token_record,
    translation_record,
)
from wlk_live.speakers import speaker_name

if TYPE_CHECKING:
    from wlk_core.errors import WLKError
    from wlk_core.processor import StreamStats
    from wlk_core.tokens import ASRToken, Silence, SpeakerSpan, Transcript, TranslatedText

EndpointReason: TypeAlias = Literal["silence", "commit", "turn-detector", "end"]


@attrs.frozen
class Commit:
    """Text became final; a token that a text filter wrote keeps the `spoken` ones."""

    tokens: tuple[ASRToken, ...]
    audio_time: float

    def shifted(self, seconds: float) -> Commit:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self,
            tokens=tuple(token.shifted(seconds) for token in self.tokens),
            audio_time=self.audio_time + seconds,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "commit", self.audio_time, tokens=[token_record(token) for token in self.tokens]
        )


@attrs.frozen
class HypothesisChange:
    """The hypothesis changed; an empty transcript means that all text so far is committed."""

    transcript: Transcript
    audio_time: float

    def shifted(self, seconds: float) -> HypothesisChange:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self, transcript=self.transcript.shifted(seconds), audio_time=self.audio_time + seconds
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "hypothesis",
            self.audio_time,
            text=self.transcript.text,
            tokens=[token_record(token) for token in self.transcript.tokens],
        )


@attrs.frozen
class SpeechStarted:
    """Voice activity detection found speech from stream time `start` on, pre-roll included."""

    start: float
    audio_time: float

    def shifted(self, seconds: float) -> SpeechStarted:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(self, start=self.start + seconds, audio_time=self.audio_time + seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record("speech", self.audio_time, start=round_seconds(self.start))


@attrs.frozen
class SilenceSpan:
    """A pause ended; its audio was not given to the model."""

    silence: Silence
    audio_time: float

    def shifted(self, seconds: float) -> SilenceSpan:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self, silence=self.silence.shifted(seconds), audio_time=self.audio_time + seconds
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record("silence", self.audio_time, **span_record(self.silence))


@attrs.frozen
class AudioGap:
    """Audio between two stream times in seconds was not captured; the clock counts it."""

    start: float
    end: float
    audio_time: float

    def shifted(self, seconds: float) -> AudioGap:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self,
            start=self.start + seconds,
            end=self.end + seconds,
            audio_time=self.audio_time + seconds,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "gap", self.audio_time, start=round_seconds(self.start), end=round_seconds(self.end)
        )


@attrs.frozen
class Endpoint:
    """An utterance is over, and every word of it is committed."""

    time: float  #: where it ends on the stream clock
    reason: EndpointReason  #: "commit": the caller asked for it; "end": the audio ended
    audio_time: float

    def shifted(self, seconds: float) -> Endpoint:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(self, time=self.time + seconds, audio_time=self.audio_time + seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "endpoint", self.audio_time, time=round_seconds(self.time), reason=self.reason
        )


@attrs.frozen(kw_only=True)
class Marked:
    """All audio before a mark is decoded as far as the policy can, and its text is reported."""

    name: str  #: the name of the mark
    transcript: Transcript  #: the hypothesis
    #: stream time up to which the model has consumed the audio; goes back where speech goes on
    #: after the end of an utterance was decoded in advance
    processed_up_to: float
    stable_up_to: float  #: no later token starts before this stream time
    stats: StreamStats  #: the processor's counters
    audio_time: float

    def shifted(self, seconds: float) -> Marked:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self,
            transcript=self.transcript.shifted(seconds),
            processed_up_to=self.processed_up_to + seconds,
            stable_up_to=self.stable_up_to + seconds,
            audio_time=self.audio_time + seconds,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "mark",
            self.audio_time,
            name=self.name,
            text=self.transcript.text,
            tokens=[token_record(token) for token in self.transcript.tokens],
            processed_up_to=round_seconds(self.processed_up_to),
            stable_up_to=round_seconds(self.stable_up_to),
            stats=rounded(self.stats),
        )


@attrs.frozen
class SpeakerTurn:
    """A diarizer identified a speaker; its span can come after the words in it were committed."""

    span: SpeakerSpan
    audio_time: float

    def shifted(self, seconds: float) -> SpeakerTurn:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self, span=self.span.shifted(seconds), audio_time=self.audio_time + seconds
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        name = speaker_name(self.span.speaker)
        return _record("speaker", self.audio_time, **span_record(self.span), speaker=name)


@attrs.frozen
class Translation:
    """Committed text was translated; a translation is final."""

    text: TranslatedText
    audio_time: float

    def shifted(self, seconds: float) -> Translation:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(
            self, text=self.text.shifted(seconds), audio_time=self.audio_time + seconds
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record("translation", self.audio_time, **translation_record(self.text))


@attrs.frozen
class Lag:
    """Audio comes faster than it is decoded, or the session has caught up."""

    seconds: float  #: audio that waits to be decoded; 0 when the session has caught up
    audio_time: float

    def shifted(self, seconds: float) -> Lag:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(self, audio_time=self.audio_time + seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record("lag", self.audio_time, seconds=round_seconds(self.seconds))


@attrs.frozen
class Failure:
    """
    A call of the engine or of an annotator failed.

    The failed call changed nothing.  Unless the failure is final, an engine call is retried and an
    annotator is switched off.  A final failure is followed by the End: audio that was not decoded
    is lost, but no committed text.
    """

    error: WLKError
    is_final: bool
    audio_time: float
    #: "diarizer", "translator", "turn detector" or "text filter"; None if the processor failed
    annotator: str | None = None

    def shifted(self, seconds: float) -> Failure:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(self, audio_time=self.audio_time + seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "failure",
            self.audio_time,
            message=str(self.error),
            is_final=self.is_final,
            annotator=self.annotator,
        )


@attrs.frozen(kw_only=True)
class LatencySummary:
    """
    Emission latency in seconds over the words of a session.

    Computation-unaware: it is measured from the word's own end time to the stream time of the audio
    received when the word was committed, and leaves out the time that the model took.
    """

    words: int
    median: float
    p90: float


@attrs.frozen(kw_only=True)
class End:
    """The session is over.  Everything is committed, unless a final Failure came before."""

    audio_time: float  #: the length of the stream in seconds
    stats: StreamStats  #: after the last step, before the processor releases its state
    latency: LatencySummary | None  #: of the committed words, None if there are none

    def shifted(self, seconds: float) -> End:
        """Return the same event, later by *seconds*."""
        return attrs.evolve(self, audio_time=self.audio_time + seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return _record(
            "end",
            self.audio_time,
            stats=rounded(self.stats),
            latency=None if self.latency is None else rounded(self.latency),
        )


Event: TypeAlias = (
    Commit
    | HypothesisChange
    | SpeechStarted
    | SilenceSpan
    | AudioGap
    | Endpoint
    | Marked
    | SpeakerTurn
    | Translation
    | Lag
    | Failure
    | End
)
"""Any event of a session."""


def _record(event: str, audio_time: float, **fields: Any) -> dict[str, Any]:
    return {"event": event, "audio_time": round_seconds(audio_time), **fields}
