"""Backlog of a stream: when process_iter has something to do."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from wlk_core import BackendError


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100_000), st.booleans()), max_size=8))
def test_a_stream_without_backlog_has_nothing_to_decode(speech, coded_engine, inserts):
    """process_iter drains the backlog in few calls, and then neither commits nor decodes."""
    engine = coded_engine()
    stream = engine.stream()
    for samples, has_silence in inserts:
        stream.insert_audio_chunk(speech.audio[:samples])
        if has_silence:
            stream.end_silence(0.5)
        calls = 0
        while stream.has_backlog:
            stream.process_iter()
            calls += 1
        assert calls <= samples / 64_000 + 2
        before = engine.calls, stream.get_buffer()
        emission = stream.process_iter()
        assert () == emission.committed
        assert before == (engine.calls, stream.get_buffer())

    stream.insert_audio_chunk(speech.audio)
    assert stream.has_backlog
    stream.finish()
    assert not stream.has_backlog


def test_a_failed_step_is_backlog(speech, coded_engine):
    """A stream has a backlog until the step that failed has succeeded."""
    stream = coded_engine(fail_at={4}).stream()
    stream.insert_audio_chunk(speech.audio[: 16_000 * 4])
    stream.process_iter()

    assert stream.has_backlog
    with pytest.raises(BackendError, match="call 4 fails"):
        stream.process_iter()
    assert stream.has_backlog
    stream.process_iter()
    assert not stream.has_backlog
