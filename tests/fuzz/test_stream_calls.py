"""Calls of a stream with any values: they are taken or refused, and the stream goes on."""

from __future__ import annotations

from contextlib import nullcontext

from cases import cases
from hypothesis import example, given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode
from wlk_core import ChangeSpeaker, ClockError, WLKError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE

pytestmark = pytest.mark.slow

SECONDS = st.floats() | st.integers() | st.sampled_from([1e300, -0.0, True, None, "2", 10**400])
CHUNKS = st.one_of(
    st.sampled_from([None, "audio", b"\0\0", 1.0, [], [0.0] * 160, np.zeros(0), np.zeros((2, 80))]),
    st.builds(
        lambda kind, length, value: np.full(length, value).astype(kind),
        st.sampled_from(["f4", "f8", "i2", "i8", "c8", "?", "U1"]),
        st.integers(0, 400),
        st.sampled_from([0, 1, 0.5, 2, 100]),
    ),
    st.builds(
        lambda value: np.full(160, value, np.float32),
        st.sampled_from([np.nan, np.inf, -np.inf, 1e30, 32768.0]),
    ),
)
CALLS = st.one_of(
    st.tuples(st.just("insert_audio_chunk"), CHUNKS),
    st.tuples(st.just("insert_audio_chunk"), CHUNKS, SECONDS),
    st.tuples(st.just("end_silence"), SECONDS),
    st.tuples(st.just("process_iter")),
    st.tuples(st.just("start_silence")),
    st.tuples(st.just("new_speaker"), st.builds(ChangeSpeaker, st.integers(0, 2), SECONDS)),
    st.tuples(st.just("new_speaker"), st.none() | st.text(max_size=2)),
)
WORD = encode([CodedToken(1, 2)], cells=10)


@cases
@given(calls=st.lists(CALLS, max_size=8))
@example(calls=[("end_silence", 1e300)])
@example(calls=[("end_silence", MAX_STREAM_SECONDS)])
@example(calls=[("new_speaker", None)])
@example(calls=[("insert_audio_chunk", np.full(160, 1e30, np.float32))])
def test_any_call_is_taken_or_refused(calls):
    """
    A value that is refused raises a WLKError, and changes nothing for the audio after it.

    Audio is refused, too, where a stream has lasted for ten years.
    """
    with ScriptedBackend() as backend:
        stream = backend.create_processor()
        tokens = []
        for name, *arguments in calls:
            try:
                emission = getattr(stream, name)(*arguments)
            except WLKError as error:
                assert "\n" not in str(error)
            else:
                tokens += [] if emission is None else emission.committed
        silence = stream.start_silence()
        tokens += silence.committed
        before = len(tokens)
        has_room = silence.processed_up_to + len(WORD) / SAMPLE_RATE <= MAX_STREAM_SECONDS
        with nullcontext() if has_room else pytest.raises(ClockError, match="ten years"):
            stream.insert_audio_chunk(WORD)
        tokens += stream.finish().committed

        assert before + has_room == len(tokens)
        assert all(0.0 <= token.start <= token.end < float("inf") for token in tokens)
