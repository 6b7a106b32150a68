"""
The events of a session, in the order in which they happen.

`audio_time` is the stream time of the audio received by then, in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from wlk_core.errors import WLKError
    from wlk_core.processor import StreamStats
    from wlk_core.tokens import ASRToken, Silence, SpeakerSpan, Transcript, TranslatedText

EndpointReason: TypeAlias = Literal["silence", "commit", "turn-detector", "end"]


@attrs.frozen
class Commit:
    """Text became final."""

    tokens: tuple[ASRToken, ...]
    audio_time: float


@attrs.frozen
class HypothesisChange:
    """The hypothesis changed; an empty transcript means that no text can change any more."""

    transcript: Transcript
    audio_time: float


@attrs.frozen
class SpeechStarted:
    """Voice activity detection found speech from stream time `start` on, pre-roll included."""

    start: float
    audio_time: float


@attrs.frozen
class SilenceSpan:
    """A pause ended; its audio was not given to the model."""

    silence: Silence
    audio_time: float


@attrs.frozen
class AudioGap:
    """Audio between two stream times in seconds was not captured; the clock counts it."""

    start: float
    end: float
    audio_time: float


@attrs.frozen
class Endpoint:
    """An utterance is over, and every word of it is committed."""

    time: float  #: where it ends on the stream clock
    reason: EndpointReason  #: "commit": the caller asked for it; "end": the audio ended
    audio_time: float


@attrs.frozen(kw_only=True)
class Marked:
    """All audio before a mark was decoded as far as the policy decides; its text was reported."""

    name: str  #: of the mark
    transcript: Transcript  #: the hypothesis
    processed_up_to: float  #: stream time up to which the model has consumed the audio
    stable_up_to: float  #: no later token starts before this stream time
    stats: StreamStats  #: the processor's counters
    audio_time: float


@attrs.frozen
class SpeakerTurn:
    """A diarizer found a speaker; spans may come after the words in them were committed."""

    span: SpeakerSpan
    audio_time: float


@attrs.frozen
class Translation:
    """Committed text was translated; a translation is final."""

    text: TranslatedText
    audio_time: float


@attrs.frozen
class Lag:
    """Audio comes faster than it is decoded, or the session has caught up."""

    seconds: float  #: of audio received that wait to be decoded; 0 when none does any more
    audio_time: float


@attrs.frozen
class Failure:
    """
    An engine call failed.

    Nothing was changed by it.  After a failure that is not final the same call is made again; an
    annotator is switched off instead.  A final one is followed by the End: audio that was not
    decoded is lost, committed text is not.
    """

    error: WLKError
    is_final: bool
    audio_time: float
    #: "diarizer", "translator" or "turn detector"; None where the processor failed
    annotator: str | None = None


@attrs.frozen(kw_only=True)
class LatencySummary:
    """
    Emission latency in seconds over the words of a session.

    Computation-unaware: it runs from the end of the word, by the word's own time, to the stream
    time of the audio received when it was committed.  The time that the model took is left out.
    """

    words: int
    median: float
    p90: float


@attrs.frozen(kw_only=True)
class End:
    """The session is over.  Everything is committed, unless a final Failure came before."""

    audio_time: float  #: the length of the stream in seconds
    stats: StreamStats  #: after the last step, before the processor releases its state
    latency: LatencySummary | None  #: of the committed words, None where there were none


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
"""Everything that a session reports."""
