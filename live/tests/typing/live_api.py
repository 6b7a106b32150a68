"""
The public API as type checkers see it: checked by ``mypy --strict``, never run.

Each function is a use that must type-check as it stands; `assert_type` pins what a call returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from wlk_core import ASRToken
from wlk_live import (
    AudioDeviceError,
    AudioGap,
    Commit,
    End,
    Endpoint,
    Event,
    Failure,
    GateParameters,
    HypothesisChange,
    Lag,
    LatencySummary,
    Marked,
    Microphone,
    Segment,
    Session,
    SessionOverloaded,
    SilenceSpan,
    SpeakerTurn,
    SpeechStarted,
    Timeline,
    Transcription,
    Translation,
    astream,
    decode_file,
    silence_gate,
    stream,
    transcribe,
    transcribe_many,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core import Backend


def an_event(event: Event) -> str:  # noqa: C901, PLR0911 -- a case for each kind of event
    """Distinguish the kinds of events; the type checker proves that there are no others."""
    match event:
        case Commit(tokens, audio_time):
            assert_type(tokens, tuple[ASRToken, ...])
            assert_type(audio_time, float)
            return "".join(token.text for token in tokens)
        case HypothesisChange(transcript):
            return transcript.text
        case SilenceSpan(silence):
            return f"{silence.duration:.1f} s of silence"
        case SpeechStarted(start) | AudioGap(start):
            return f"from {start:.1f} s on"
        case Endpoint(time, reason):
            return f"{reason} at {time:.1f} s"
        case SpeakerTurn(span):
            return str(span.speaker)
        case Translation(text):
            return text.text
        case Marked():
            return f"{event.processed_up_to:.1f} s are decoded"
        case Lag(seconds):
            return f"{seconds:.1f} s wait"
        case Failure(error, is_final):
            assert_type(is_final, bool)
            return str(error)
        case End():
            assert_type(event.latency, LatencySummary | None)
            return f"{event.audio_time:.1f} s"


def events(backend: Backend, chunks: Iterable[NDArray[np.float32]]) -> Iterator[str]:
    """Give chunks and receive events."""
    for event in stream(backend, chunks, language="en", vad=True, chunk_seconds=0.5):
        yield an_event(event)


async def async_events(
    backend: Backend,
    live: AsyncIterator[NDArray[np.float32]],
) -> None:
    """Use the asynchronous counterpart of `stream`."""
    async for event in astream(backend, live, language="en"):
        an_event(event)


def a_recording(backend: Backend, samples: NDArray[np.float32]) -> str:
    """Transcribe a file, then an array of another rate."""
    result = transcribe(backend, "talk.flac", language="en", vad=GateParameters(threshold=0.6))
    assert_type(result, Transcription)
    assert_type(result.words, tuple[ASRToken, ...])
    assert_type(result.segments[0], Segment)
    assert_type(result.to_srt(), str)
    return transcribe(backend, samples, sample_rate=48_000).text


def recordings(backend: Backend, paths: Iterable[str]) -> list[str]:
    """Transcribe many files; an error takes the place of a transcription."""
    results = transcribe_many(backend, paths, language="en")
    return [str(each) if isinstance(each, Exception) else each.text for each in results]


def a_session(backend: Backend, chunks: Iterable[bytes]) -> list[Event]:
    """Feed bytes of telephone audio, and arrange the events in lines."""
    processor = backend.create_processor(language="en")
    session = Session(processor, gate=silence_gate(), encoding="mulaw", rate=8_000)
    events: list[Event] = []
    for chunk in chunks:
        try:
            events += session.feed(chunk)
        except SessionOverloaded:
            break
    events += session.finish()
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    assert_type(timeline.tokens, list[ASRToken])
    return events


def a_microphone() -> Iterator[NDArray[np.float32]]:
    """Iterate over what a microphone captures, then over a file."""
    try:
        with Microphone() as microphone:
            yield from microphone
    except AudioDeviceError:
        yield from decode_file("talk.flac")
