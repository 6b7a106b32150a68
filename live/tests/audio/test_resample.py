"""Resample the audio of a stream piece by piece, and cut it into chunks of equal length."""

from __future__ import annotations

from pathlib import Path
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.errors import AudioFormatError
from wlk_live.audio import Resampler, rechunk


@pytest.mark.parametrize(
    ("rate", "to_rate"),
    [(8000, 16_000), (11_025, 16_000), (16_000, 16_000), (44_100, 16_000), (96_000, 16_000),
     (16_000, 24_000), (16_000, 48_000)],
)  # fmt: skip
def test_a_click_stays_at_its_time(rate, to_rate):
    """Resampling neither delays nor drifts, in either direction."""
    samples = np.zeros(rate * 3 + 36, np.float32)
    samples[rate * 2] = 1.0
    resampler = Resampler(rate, to_rate=to_rate)

    out = [resampler.push(piece) for piece in np.array_split(samples, 41)]
    audio = np.concatenate([*out, resampler.flush()])

    assert int(np.argmax(np.abs(audio))) == to_rate * 2
    assert len(audio) == round(len(samples) * to_rate / rate)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(cuts=st.lists(st.integers(0, 4410), max_size=8), rate=st.sampled_from([8000, 44100, 48000]))
def test_the_cut_of_the_input_changes_nothing(cuts, rate):
    """Any pieces give the same samples as one piece, and a flush begins a new stream."""
    samples = np.random.default_rng(5).standard_normal(4410).astype(np.float32)
    resampler = Resampler(rate)

    expected = np.concatenate([resampler.push(samples), resampler.flush()])
    out = [resampler.push(piece) for piece in np.split(samples, sorted(cuts))]

    assert np.array_equal(expected, np.concatenate([*out, resampler.flush()]))


@settings(deadline=None, derandomize=True, max_examples=50)
@given(lengths=st.lists(st.integers(0, 50), max_size=20), samples=st.integers(1, 60))
def test_chunks_have_one_length_and_lose_nothing(lengths, samples):
    """All chunks but the last have the requested length; joined they are the input."""
    audio = np.arange(sum(lengths), dtype=np.float32)
    pieces = np.split(audio, np.cumsum(lengths)[:-1]) if lengths else []

    chunks = list(rechunk(pieces, samples))

    assert all(len(chunk) == samples for chunk in chunks[:-1])
    assert all(0 < len(chunk) <= samples for chunk in chunks)
    assert np.concatenate([*chunks, np.empty(0)]).tolist() == audio.tolist()


def test_a_chunk_comes_as_soon_as_it_is_full_or_the_source_fails():
    """Live audio is not held back, and audio before a failure is not lost."""

    def damaged():
        yield np.zeros(1700, np.float32)
        raise AudioFormatError("damaged")

    chunks = rechunk(damaged(), 1600)

    assert [len(next(chunks)), len(next(chunks))] == [1600, 100]
    with pytest.raises(AudioFormatError, match="damaged"):
        next(chunks)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_stream_that_is_resampled_starts_no_threads():
    """A thread per core for every session would mean thousands of threads on a server."""
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    resamplers = [Resampler(24_000) for _ in range(10)]
    for resampler in resamplers:
        resampler.push(np.zeros(2400, dtype=np.float32))

    assert len(list(tasks.iterdir())) <= before
