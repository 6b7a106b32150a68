"""Live sources of any encoding and rate, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_live.audio import PcmConverter

WAVE = np.sin(np.arange(4_000) / 7).astype(np.float32) * 0.5


def converted(converter, pieces):
    """Return everything that comes out of *converter*."""
    return np.concatenate([*(converter.push(piece) for piece in pieces), converter.flush()])


@given(
    cuts=st.lists(st.integers(0, 4_000), max_size=12),
    rate=st.sampled_from([8_000, 16_000, 24_000, 44_100, 48_000]),
)
def test_bytes_may_be_cut_inside_a_sample(cuts, rate):
    """Odd byte counts change no sample."""
    data = (WAVE[:2_000] * 32_767).astype("<i2").tobytes()
    edges = [0, *sorted(cuts), len(data)]

    whole = converted(PcmConverter(rate=rate), [data])
    parts = converted(PcmConverter(rate=rate), [data[a:b] for a, b in pairwise(edges)])

    assert len(whole) == round(2_000 * 16_000 / rate)
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize(
    ("encoding", "expected"), [("mulaw", [-32124, 32124, 0]), ("alaw", [-5504, 5504, 848])]
)
def test_g711_has_the_values_of_the_standard(encoding, expected):
    """The loudest codes and one other have their values as 16-bit integers."""
    samples = PcmConverter(encoding=encoding).push(b"\x00\x80\xff")

    assert (samples * 32_768).tolist() == expected


def test_what_comes_out_is_a_copy():
    """A source may reuse its memory."""
    samples = WAVE.copy()
    result = PcmConverter().push(samples)
    samples[:] = 0

    assert np.array_equal(WAVE, result)


@pytest.mark.parametrize(
    ("piece", "match"),
    [
        (np.stack([WAVE, WAVE], axis=1), "one channel.*axis=1"),
        (np.array([np.nan], np.float32), "finite|within"),
        (np.zeros(3, complex), "complex"),
        ("text", "a numpy array of samples, got str"),
    ],
    ids=["stereo", "nan", "complex", "text"],
)
def test_a_refused_piece_changes_nothing(piece, match):
    """The next piece is converted as if the refused one had not come."""
    converter = PcmConverter(rate=48_000)
    before = converter.push(WAVE)
    with pytest.raises(AudioFormatError, match=match):
        converter.push(piece)
    rest = [converter.push(WAVE), converter.flush()]

    expected = converted(PcmConverter(rate=48_000), [WAVE, WAVE])
    assert np.array_equal(expected, np.concatenate([before, *rest]))


def test_bytes_that_are_no_number_are_refused_with_the_bytes_before_them():
    """An incomplete sample waits for the next bytes, and a refused piece does not."""
    converter = PcmConverter(encoding="f32le")
    converter.push(b"\x00\x00")
    with pytest.raises(AudioFormatError, match="got inf"):
        converter.push(b"\x80\x7f")  # completes infinity

    assert np.array_equal([np.float32(1.0)], converter.push(b"\x80\x3f"))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"encoding": "mp3"}, "s16le, f32le, mulaw, alaw, got 'mp3'"),
        ({"rate": 7_999}, "8000 to 192000 Hz, got 7999"),
        ({"rate": 16_000.5}, "sample rate"),
    ],
)
def test_the_form_of_the_source_is_checked(options, match):
    """AudioFormatError names the accepted encodings or rates, and what came."""
    with pytest.raises(AudioFormatError, match=match):
        PcmConverter(**options)
