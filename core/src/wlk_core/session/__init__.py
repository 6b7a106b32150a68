"""A session: the audio of a file, a pipe or a live source through a stream, as events."""

from __future__ import annotations

from wlk_core.session.event_streams import AsyncEvents, astream, stream
from wlk_core.session.events import (
    AudioGap,
    Commit,
    End,
    Endpoint,
    Event,
    Failure,
    HypothesisChange,
    Lag,
    LatencySummary,
    Marked,
    SilenceSpan,
    SpeakerTurn,
    SpeechStarted,
    Translation,
)
from wlk_core.session.session import Session
from wlk_core.session.timeline import Timeline
from wlk_core.session.transcription import Transcription, transcribe

__all__ = [
    "AsyncEvents",
    "AudioGap",
    "Commit",
    "End",
    "Endpoint",
    "Event",
    "Failure",
    "HypothesisChange",
    "Lag",
    "LatencySummary",
    "Marked",
    "Session",
    "SilenceSpan",
    "SpeakerTurn",
    "SpeechStarted",
    "Timeline",
    "Transcription",
    "Translation",
    "astream",
    "stream",
    "transcribe",
]
