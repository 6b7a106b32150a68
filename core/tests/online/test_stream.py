"""A stream around a recognizer: its backlog, its counters and where its text is joined."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import CodedToken, StreamDriver, encode
from wlk_core import BackendError, StreamClosed
from wlk_core.online.input_queue import InputQueue


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100_000), st.booleans()), max_size=8))
def test_a_stream_without_backlog_has_nothing_to_decode(speech, coded_engine, inserts):
    """process_iter drains the backlog in a few calls, then neither commits nor decodes."""
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
        assert emission.committed == ()
        assert (engine.calls, stream.get_buffer()) == before

    stream.insert_audio_chunk(speech.audio)
    assert stream.has_backlog
    stream.finish()
    assert not stream.has_backlog


def test_a_failed_step_is_backlog(speech, coded_engine):
    """A stream has a backlog until the failed step has succeeded."""
    stream = coded_engine(fail_at={4}).stream()
    stream.insert_audio_chunk(speech.audio[: 16_000 * 4])
    with pytest.raises(BackendError, match="call 4 fails"):
        stream.process_iter()

    assert stream.has_backlog
    stream.process_iter()
    assert not stream.has_backlog


@given(st.lists(st.one_of(st.integers(0, 10**5), st.floats(0, 4000, allow_nan=False)), max_size=20))
def test_the_clock_is_the_exact_sum_of_samples_and_silences(steps):
    """Times do not drift, whatever the order and number of silences."""
    queue, exact = InputQueue(), Fraction(0)
    for step in steps:
        if isinstance(step, int):
            queue.put_audio(np.zeros(step, np.float32))
            exact += Fraction(step, 16_000)
        else:
            queue.put_silence(step)
            exact += Fraction(step)
    end = queue.end
    while queue.take() is not None:
        pass

    assert float(exact) == end == queue.taken_end


def test_stats_after_finish_still_count_the_state(speech, engine):
    """state_bytes is positive after finish and zero after close."""
    driver = StreamDriver(engine.stream())
    driver.feed(speech.audio)
    driver.finish()
    assert driver.processor.stats.state_bytes > 0

    driver.processor.close()

    assert driver.processor.stats.state_bytes == 0


def test_close_releases_audio_that_was_not_decoded(speech, engine):
    """A closed stream holds nothing, whether its audio was taken or still waited."""
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio)

    stream.close()

    assert stream.stats.state_bytes == 0
    assert not stream.has_backlog


@pytest.mark.parametrize("flush", ["finish", "start_silence"])
def test_a_flush_that_close_cuts_short_says_so(speech, coded_engine, flush):
    """It does not return as if every word had been committed, and hands over those that were."""
    engine = coded_engine()
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio)
    engine.before_call = lambda: engine.calls == 4 and stream.close()

    with pytest.raises(StreamClosed, match="closed by another thread") as caught:
        getattr(stream, flush)()

    committed = "".join(token.text for token in caught.value.committed).strip()
    assert committed
    assert speech.text.startswith(committed)
    assert stream.stats.state_bytes == 0


@pytest.mark.parametrize(
    ("vocabulary", "text"),
    [
        (
            ("trans", "crip", "tion", ",", " un", "able"),
            "transcription, unable transcription, unable",
        ),
        (("你好", "世界"), "你好世界你好世界"),
    ],
    ids=["pieces of words", "a script without spaces"],
)
def test_only_utterances_are_joined_with_a_space(coded_engine, vocabulary, text):
    """Tokens keep their own spacing; between utterances the script decides."""
    audio = encode([CodedToken(1 + i, 3 * i, 3) for i in range(len(vocabulary))])
    driver = StreamDriver(coded_engine(vocabulary).stream())
    driver.feed(audio, chunk_seconds=0.24)
    driver.silence(1.0)
    driver.feed(audio, chunk_seconds=0.24)
    driver.finish()

    assert driver.text == text
