"""AudioBuffer, compared with an array of the whole recording."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.streaming import AudioBuffer

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["append", "trim"]), st.integers(0, 40_000)), max_size=30
)


@given(OPERATIONS)
def test_a_buffer_equals_the_recording_from_its_start_on(operations):
    """After any appends and trims, sample number n is the n-th sample ever appended."""
    buffer, recording = AudioBuffer(), np.empty(0, dtype=np.float32)
    for kind, amount in operations:
        if kind == "append":
            piece = np.arange(len(recording), len(recording) + amount, dtype=np.float32)
            buffer.append(piece)
            recording = np.concatenate((recording, piece))
            piece[:] = -1.0  # the caller's array is its own
        else:
            buffer.trim(min(amount, buffer.end))

    view = buffer.view(buffer.start, buffer.end)
    assert buffer.end == len(recording)
    np.testing.assert_array_equal(recording[buffer.start :], view)
    assert not view.flags.writeable


@given(st.integers(1, 5000), st.integers(1, 400))
def test_storage_stays_bounded_when_the_front_is_trimmed(chunk, rounds):
    """The storage of a trimmed buffer does not grow with the length of the stream."""
    buffer = AudioBuffer()
    for _ in range(rounds):
        buffer.append(np.zeros(chunk, dtype=np.float32))
        buffer.trim(max(buffer.start, buffer.end - 2 * chunk))

    assert len(buffer.view(buffer.start, buffer.end).base) <= 3 * chunk


@pytest.mark.parametrize(("start", "end"), [(0, 5), (8, 21), (15, 12)])
def test_samples_that_are_not_held_are_an_error(start, end):
    """A range outside the samples held, or backwards, raises IndexError with the numbers."""
    buffer = AudioBuffer()
    buffer.append(np.ones(20, dtype=np.float32))
    buffer.trim(6)

    with pytest.raises(IndexError, match="6 to 20 are held"):
        buffer.view(start, end)


@given(st.integers(0, 4000), st.integers(400, 6000), st.booleans())
def test_the_quietest_sample_lies_in_the_pause(position, length, is_trimmed):
    """In noise with one silent stretch, the cut is inside that stretch."""
    rng = np.random.default_rng(position * 10_007 + length)
    audio = rng.uniform(0.1, 0.5, 4000 + length).astype(np.float32)
    audio[position : position + 400] = 0.0
    buffer = AudioBuffer()
    buffer.append(audio)
    buffer.trim(position * is_trimmed)

    assert position - 400 <= buffer.quietest_sample(0.0, 1.0) <= position + 800


def test_audio_shorter_than_the_window_is_cut_in_the_middle():
    """Ten samples have no two places to compare."""
    buffer = AudioBuffer()
    buffer.append(np.zeros(20, dtype=np.float32))

    assert buffer.quietest_sample(10 / 16_000, 1.0) == 15
