"""Changing the sample rate of a stream, piece by piece."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.audio import Resampler
from wlk_core.errors import AudioFormatError


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000])
def test_a_click_stays_at_its_time(rate):
    """Resampling neither delays nor drifts."""
    samples = np.zeros(rate * 3 + 37, np.float32)
    samples[rate * 2] = 1.0
    resampler = Resampler(rate)

    out = [resampler.push(piece) for piece in np.array_split(samples, 41)]
    audio = np.concatenate([*out, resampler.flush()])

    assert int(np.argmax(np.abs(audio))) == 32_000
    assert len(audio) == round(len(samples) * 16_000 / rate)


@pytest.mark.parametrize("rate", [8000, 24_000, 48_000])
def test_the_target_rate_can_be_another(rate):
    """A server may take audio at another rate than models do."""
    samples = np.zeros(16_000 * 3 + 36, np.float32)
    samples[32_000] = 1.0
    resampler = Resampler(16_000, to_rate=rate)

    out = [resampler.push(piece) for piece in np.array_split(samples, 41)]
    audio = np.concatenate([*out, resampler.flush()])

    assert int(np.argmax(np.abs(audio))) == 2 * rate
    assert len(audio) == round(len(samples) * rate / 16_000)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(cuts=st.lists(st.integers(0, 4410), max_size=8), rate=st.sampled_from([8000, 44100, 48000]))
def test_the_cut_of_the_input_changes_nothing(cuts, rate):
    """Any pieces give the samples that one piece gives."""
    samples = np.random.default_rng(5).standard_normal(4410).astype(np.float32)
    whole, pieces = Resampler(rate), Resampler(rate)

    expected = np.concatenate([whole.push(samples), whole.flush()])
    out = [pieces.push(piece) for piece in np.split(samples, sorted(cuts))]

    assert np.array_equal(expected, np.concatenate([*out, pieces.flush()]))


def test_a_long_piece_is_resampled_a_second_at_a_time():
    """FFmpeg keeps buffers in proportion to its longest input, for the life of the stream."""
    resampler = Resampler(24_000)
    lengths = []
    ffmpeg = resampler._ffmpeg_resampler

    class Watched:
        """Count the samples of each call, and pass it on."""

        def resample(self, frame):
            lengths.append(frame.samples)
            return ffmpeg.resample(frame)

    resampler._ffmpeg_resampler = Watched()
    audio = resampler.push(np.zeros(24_000 * 300 + 7, np.float32))

    assert [24_000] * 300 + [7] == lengths
    assert len(audio) == pytest.approx(16_000 * 300, abs=1000)


def test_a_flush_begins_anew():
    """A flushed resampler gives the same samples as a new one."""
    samples = np.random.default_rng(5).standard_normal(4410).astype(np.float32)
    resampler = Resampler(44_100)

    first = np.concatenate([resampler.push(samples), resampler.flush()])
    second = np.concatenate([resampler.push(samples), resampler.flush()])

    assert np.array_equal(first, second)
    assert len(resampler.flush()) == 0


@pytest.mark.parametrize("rate", [0, -16_000, 44_100.5])
def test_an_impossible_rate_is_refused(rate):
    """A rate is a positive whole number."""
    with pytest.raises(AudioFormatError, match="positive whole number"):
        Resampler(rate)
