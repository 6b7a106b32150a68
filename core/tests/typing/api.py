"""
The public API as type checkers see it: checked by ``mypy --strict``, never run.

Each function is a use that must type-check as it stands; `assert_type` pins what a call returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from wlk_core import (
    EPS,
    SAMPLE_RATE,
    ASRToken,
    BackendError,
    ChangeSpeaker,
    Emission,
    OnlineProcessor,
    StreamBroken,
    StreamStats,
    SupportsSpeakerTurns,
    Transcript,
)
from wlk_live.session import (
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
    astream,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import LoadedBackend


def an_emission(emission: Emission) -> None:
    """Use an emission as a pair and by its three attributes."""
    tokens, processed_up_to = emission
    assert_type(tokens, tuple[ASRToken, ...])
    assert_type(processed_up_to, float)
    assert_type(emission.committed, tuple[ASRToken, ...])
    assert_type(emission.processed_up_to, float)
    assert_type(emission.stable_up_to, float)
    assert_type(emission.replace(stable_up_to=1.0), Emission)
    committed, reached = Emission((), 1.0, 1.0)
    assert_type((committed, reached), tuple[tuple[ASRToken, ...], float])


def a_stream(processor: OnlineProcessor, chunk: NDArray[np.float32]) -> StreamStats:
    """Use every call of a stream."""
    processor.insert_audio_chunk(chunk, len(chunk) / SAMPLE_RATE + EPS)
    while processor.has_backlog:
        for token in processor.process_iter().committed:
            assert_type(token, ASRToken)
    assert_type(processor.get_buffer(), Transcript)
    assert_type(processor.start_silence(), Emission)
    processor.end_silence(2.5)
    if isinstance(processor, SupportsSpeakerTurns):
        assert_type(processor.new_speaker(ChangeSpeaker("ann", 12.5)), Emission)
    try:
        assert_type(processor.finish(), Emission)
    except StreamBroken as error:
        assert_type(error.committed, tuple[ASRToken, ...])
    except BackendError as error:
        assert_type(error.retryable, bool)
    processor.reset()
    stats = processor.stats
    assert_type(stats.encoder_frames, int | None)
    processor.close()
    return stats


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


def events(backend: LoadedBackend[Any], chunks: Iterable[NDArray[np.float32]]) -> Iterator[str]:
    """Give chunks and receive events."""
    for event in backend.stream(chunks, language="en", vad=True, chunk_seconds=0.5):
        yield an_event(event)
    for event in stream(backend, chunks):
        yield an_event(event)


async def async_events(
    backend: LoadedBackend[Any],
    live: AsyncIterator[NDArray[np.float32]],
) -> None:
    """Use the async twin of `stream`."""
    async for event in backend.astream(live, language="en"):
        an_event(event)
    async for event in astream(backend, live):
        an_event(event)
