"""Audio of live sources: bytes cut anywhere, sample types, channels, rates and G.711."""

from __future__ import annotations

from itertools import pairwise

import av
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_core.audio import PcmConverter

WAVE = np.sin(np.arange(4_000) / 7).astype(np.float32) * 0.5
STEREO = np.stack([WAVE, -0.5 * WAVE], axis=1)


def converted(converter, pieces):
    """Return everything that comes out of *converter*."""
    return np.concatenate([*(converter.push(piece) for piece in pieces), converter.flush()])


def cut(data, cuts):
    """Cut bytes at the places of *cuts*."""
    edges = [0, *sorted(cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(
    cuts=st.lists(st.integers(0, 8_000), max_size=12),
    channels=st.sampled_from([1, 2]),
    rate=st.sampled_from([8_000, 16_000, 24_000, 44_100, 48_000]),
)
def test_bytes_may_be_cut_inside_a_sample(cuts, channels, rate):
    """Odd byte counts change no sample."""
    data = (STEREO[:2_000, :channels] * 32_767).astype("<i2").tobytes()
    whole = converted(PcmConverter(rate=rate, channels=channels), [data])
    pieces = cut(data, [index % (len(data) + 1) for index in cuts])

    parts = converted(PcmConverter(rate=rate, channels=channels), pieces)

    assert round(2_000 * 16_000 / rate) == len(whole)
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("encoding", ["mulaw", "alaw"])
def test_g711_is_decoded_as_ffmpeg_decodes_it(encoding):
    """All 256 codes have the value that the reference decoder gives."""
    codec = av.CodecContext.create(f"pcm_{encoding}", "r")
    codec.sample_rate, codec.layout = 8_000, "mono"
    packet = av.Packet(bytes(range(256)))
    (frame,) = codec.decode(packet)
    expected = frame.to_ndarray().reshape(-1).astype(np.float32) / 32_768
    converter = PcmConverter(encoding=encoding, rate=16_000)

    assert np.array_equal(expected, converter.push(bytes(range(256))))


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "float64", "float32"])
def test_arrays_have_a_sample_type_of_their_own(dtype):
    """The same sound in another type is the same sound, within the type's step."""
    scale = {"int16": 32_767, "int32": 2_147_483_647, "uint8": 127}.get(dtype, 1)
    offset = 128 if dtype == "uint8" else 0
    samples = (WAVE.astype(np.float64) * scale + offset).round(0 if scale > 1 else 9).astype(dtype)

    assert np.allclose(WAVE, PcmConverter().push(samples), atol=0.01)


def test_channels_are_averaged_in_bytes_and_in_arrays():
    """Interleaved bytes and an array of columns are the same source."""
    in_bytes = PcmConverter(encoding="f32le", channels=2).push(STEREO.astype("<f4").tobytes())
    in_columns = PcmConverter(channels=2).push(STEREO)

    assert np.array_equal(in_bytes, in_columns)
    assert np.allclose(0.25 * WAVE, in_bytes, atol=1e-6)


def test_what_comes_out_is_a_copy():
    """A source may use its memory again."""
    samples = WAVE.copy()
    result = PcmConverter().push(samples)
    samples[:] = 0

    assert np.array_equal(WAVE, result)


@pytest.mark.parametrize(
    ("piece", "match"),
    [
        (STEREO, r"shape \(n,\)"),
        (np.array([np.nan], np.float32), "finite"),
        (np.zeros(3, complex), "complex"),
        ("text", "bytes or a numpy array"),
        ([0.0], "bytes or a numpy array"),
        (None, "bytes or a numpy array"),
    ],
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
    with pytest.raises(AudioFormatError, match="finite"):
        converter.push(b"\x80\x7f")  # completes infinity

    assert np.array_equal([np.float32(1.0)], converter.push(b"\x80\x3f"))


def test_an_array_inside_a_sample_of_bytes_is_refused():
    """A source has one form."""
    converter = PcmConverter()
    converter.push(b"\x00")

    with pytest.raises(AudioFormatError, match="one form"):
        converter.push(WAVE)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"encoding": "mp3"}, "s16le, f32le, mulaw, alaw, got 'mp3'"),
        ({"rate": 7_999}, "8000 to 192000 Hz, got 7999"),
        ({"rate": 16_000.5}, "sample rate"),
        ({"rate": True}, "sample rate"),
        ({"channels": 0}, "1 to 64 channels, got 0"),
        ({"channels": "2"}, "1 to 64 channels"),
    ],
)
def test_the_form_of_the_source_is_checked(options, match):
    """One line names what is accepted."""
    with pytest.raises(AudioFormatError, match=match):
        PcmConverter(**options)
