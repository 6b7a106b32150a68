"""Cutting audio into chunks of one length."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.audio import rechunk
from wlk_core.errors import AudioFormatError


@settings(deadline=None, derandomize=True, max_examples=50)
@given(lengths=st.lists(st.integers(0, 50), max_size=20), samples=st.integers(1, 60))
def test_chunks_have_one_length_and_lose_nothing(lengths, samples):
    """All chunks but the last have the requested length; joined they are the input."""
    audio = np.arange(sum(lengths), dtype=np.float32)
    pieces = np.split(audio, np.cumsum(lengths)[:-1]) if lengths else []

    chunks = list(rechunk(pieces, samples))

    assert all(len(chunk) == samples for chunk in chunks[:-1])
    assert all(0 < len(chunk) <= samples for chunk in chunks)
    assert audio.tolist() == np.concatenate([*chunks, np.empty(0)]).tolist()


def test_a_full_chunk_is_yielded_before_more_audio_is_requested():
    """Live audio is not held back."""

    def one_piece_and_no_more():
        yield np.zeros(1600, np.float32)
        pytest.fail("more audio was requested although a chunk was full")

    assert 1600 == len(next(rechunk(one_piece_and_no_more(), 1600)))


def test_the_audio_before_a_failure_is_yielded_first():
    """A shorter chunk is yielded before the failure is raised."""

    def damaged():
        yield np.zeros(100, np.float32)
        raise AudioFormatError("damaged")

    chunks = rechunk(damaged(), 1600)

    assert 100 == len(next(chunks))
    with pytest.raises(AudioFormatError, match="damaged"):
        next(chunks)


def test_a_length_of_zero_is_refused_at_once():
    """The mistake shows at the call, not at the first chunk."""
    with pytest.raises(ValueError, match="`samples` must be positive, got 0"):
        rechunk([], 0)
