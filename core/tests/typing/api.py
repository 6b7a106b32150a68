"""
The public API as type checkers see it: checked by ``mypy --strict``, never run.

Each function is a use that must type-check as it stands; `assert_type` pins what a call returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def an_emission(emission: Emission) -> None:
    """Use an emission as a pair and by its three attributes."""
    tokens, processed_up_to = emission
    assert_type(tokens, tuple[ASRToken, ...])
    assert_type(processed_up_to, float)
    assert_type(emission.committed, tuple[ASRToken, ...])
    assert_type(emission.processed_up_to, float)
    assert_type(emission.stable_up_to, float)
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
