"""A flush that was prepared commits what it would have committed anyway, without another call."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import BackendError
from wlk_core.processor import SupportsPreparedFlush

POLICIES = pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])


def drain(stream: Any) -> list[Any]:
    """Return the tokens of everything that can be decoded before a flush."""
    tokens: list[Any] = []
    while stream.has_backlog:
        tokens += stream.process_iter().committed
    return tokens


def words_of(tokens: Any) -> list[Any]:
    """Return the words and times of tokens, whose language is known only after the flush."""
    return [(token.text, token.start, token.end) for token in tokens]


@POLICIES
def test_the_flush_makes_no_call_of_its_own(policy: str, coded_engine: Any, speech: Any) -> None:
    """The answer is kept until the flush, and until then nothing of it is visible."""
    engine = coded_engine()
    stream = engine.stream(policy=policy)
    stream.insert_audio_chunk(speech.audio[:20_000])
    drain(stream)
    before = stream.get_buffer(), stream.stats.busy_seconds

    stream.prepare_flush()
    calls = engine.calls
    hypothesis = stream.get_buffer()
    tokens = stream.start_silence().committed

    assert isinstance(stream, SupportsPreparedFlush)
    assert hypothesis == before[0]
    assert stream.stats.busy_seconds > before[1]
    assert tokens
    assert engine.calls == calls


@POLICIES
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_preparing_changes_no_word_and_no_time(
    policy: str, coded_engine: Any, speech: Any, data: st.DataObject
) -> None:
    """Wherever flushes are prepared, in vain or not, the tokens are those of a plain stream."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(speech.audio) - 1), max_size=8)))
    is_pause = data.draw(st.lists(st.booleans(), min_size=len(cuts), max_size=len(cuts)))
    tokens: list[list[Any]] = []
    for prepares in (False, True):
        stream = coded_engine(changes_mind=True).stream(policy=policy)
        tokens.append([])
        for piece, pause in zip(np.split(speech.audio, cuts), [*is_pause, True], strict=True):
            stream.insert_audio_chunk(piece)
            tokens[-1] += drain(stream)
            prepared = stream.prepare_flush() if prepares else None
            if pause:
                flushed = stream.start_silence().committed
                assert prepared is None or words_of(prepared.tokens) == words_of(flushed)
                tokens[-1] += flushed
                stream.end_silence(0.5)
        tokens[-1] += stream.finish().committed

    assert tokens[1] == tokens[0]


def test_work_in_vain_is_counted(coded_engine: Any, speech: Any) -> None:
    """The counters tell what a flush cost that was prepared and not needed."""
    plain, prepared = (coded_engine().stream() for _ in range(2))
    for stream in (plain, prepared):
        stream.insert_audio_chunk(speech.audio[:20_000])
        drain(stream)
    prepared.prepare_flush()
    prepared.prepare_flush()
    for stream in (plain, prepared):
        stream.insert_audio_chunk(speech.audio[20_000:24_000])
        stream.finish()

    in_vain = prepared.stats.encoder_frames - plain.stats.encoder_frames
    assert in_vain == 125


def test_audio_that_is_due_is_decoded_first(coded_engine: Any, speech: Any) -> None:
    """A stream with a backlog prepares nothing, because a tick could change what is left."""
    engine = coded_engine()
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio)

    stream.prepare_flush()

    assert engine.calls == 0


def test_a_failed_preparation_changes_nothing(coded_engine: Any, speech: Any) -> None:
    """It counts as a failed call; the flush decodes the audio itself."""
    engine = coded_engine(fail_at={2})
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio[:20_000])
    drain(stream)

    with pytest.raises(BackendError):
        stream.prepare_flush()
    tokens = stream.finish().committed

    expected = coded_engine().stream()
    expected.insert_audio_chunk(speech.audio[:20_000])
    drain(expected)
    assert tokens == expected.finish().committed


def test_a_failure_is_not_forgotten_without_a_call_that_succeeds(
    coded_engine: Any, speech: Any
) -> None:
    """Preparing what is prepared already calls no engine, so a broken stream still breaks."""
    engine = coded_engine(fail_at=set(range(3, 9)))
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio[:20_000])
    drain(stream)
    stream.prepare_flush()
    stream.insert_audio_chunk(speech.audio[20_000:36_000])
    for _ in range(4):
        with pytest.raises(BackendError):
            stream.process_iter()

    with pytest.raises(BackendError, match="is broken"):
        stream.prepare_flush()
