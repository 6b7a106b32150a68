"""Validate audio, convert other sample types, and convert live sources that are cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_core.audio import to_float32, valid_copy, validate_audio
from wlk_live.audio import PcmConverter

WAVE = np.sin(np.arange(4_000) / 7).astype(np.float32) * 0.5
PCM = [np.dtype(name) for name in ("i2", "i4", "u1", "f4", "f8")]
DTYPES = [*PCM, *(np.dtype(name) for name in (">i2", ">f4", "f2", "i1", "u2", "i8", "c8", "?"))]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.array([-32768, 0, 16384], np.int16), [-1.0, 0.0, 0.5]),
        (np.array([-(2**31), 0, 2**30], np.int32), [-1.0, 0.0, 0.5]),
        (np.array([0, 128, 192], np.uint8), [-1.0, 0.0, 0.5]),
        (np.array([-1.0, 0.0, 0.5], np.float64), [-1.0, 0.0, 0.5]),
        (np.array([-32768, 0, 16384], ">i2"), [-1.0, 0.0, 0.5]),
        (np.array([], np.int16), []),
    ],
    ids=["int16", "int32", "uint8", "float64", "big-endian", "nothing"],
)
def test_samples_of_every_pcm_type_become_float32_in_full_scale(samples, expected):
    """Integers are scaled by their full scale, floats are not scaled."""
    converted = to_float32(samples)

    assert np.float32 == converted.dtype
    assert expected == converted.tolist()


@settings(deadline=None, derandomize=True, max_examples=200)
@given(samples=arrays(st.sampled_from(DTYPES), array_shapes(min_dims=0, max_dims=3), elements={}))
def test_any_array_is_converted_or_refused_with_one_line(samples):
    """A PCM type is converted in its shape; any other raises AudioFormatError."""
    untouched = samples.copy()
    try:
        converted = to_float32(samples[..., ::-1] if samples.ndim else samples)
    except AudioFormatError as refusal:
        assert samples.dtype.newbyteorder("=") not in PCM
        assert "\n" not in str(refusal)
        return

    assert samples.dtype.newbyteorder("=") in PCM
    assert (np.float32, samples.shape) == (converted.dtype, converted.shape)
    assert samples.dtype.kind == "f" or not samples.size or np.abs(converted).max() <= 1
    assert np.array_equal(untouched, samples, equal_nan=samples.dtype.kind in "fc")


@settings(deadline=None, derandomize=True, max_examples=200)
@given(samples=arrays(np.float32, st.integers(0, 40)))
def test_audio_is_valid_exactly_if_every_sample_is_possible(samples):
    """The quick check and the exact one agree on any float32."""
    is_possible = bool((np.abs(samples) <= 16).all())  # False for NaN
    try:
        validate_audio(samples)
    except AudioFormatError:
        assert not is_possible
    else:
        assert is_possible


@pytest.mark.parametrize("quiet", [0, 1600, 200_000], ids="{} samples before".format)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 16.5, -32768.0, 2.0**40], ids=str)
def test_a_sample_that_no_sound_has_is_named_with_its_index(value, quiet):
    """The most common mistake is to cast integers to float without scaling them."""
    samples = np.full(quiet + 100, 0.5, np.float32)
    samples[quiet + 7] = value

    with pytest.raises(AudioFormatError, match=f"got {value} at sample {quiet + 7} of .*to_fl"):
        validate_audio(samples)


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        (np.zeros(8, np.int16), "got int16; .*to_float32"),
        (np.zeros((8, 2), np.float32), r"shape \(8, 2\); .*axis=1"),
        (np.zeros((2, 8), np.int16), r"shape \(2, 8\); .*axis=0"),
        (np.zeros((), np.float32), r"got shape \(\)"),
        ([0.0], "got list"),
    ],
    ids=["int16", "channels last", "channels first", "scalar", "list"],
)
def test_other_ranks_and_types_are_refused(samples, complaint):
    """Nothing is converted silently."""
    with pytest.raises(AudioFormatError, match=complaint):
        validate_audio(samples)


@pytest.mark.parametrize(
    "change",
    [
        lambda audio: audio * np.float32(np.inf),
        lambda audio: audio.reshape(2, 5),
        lambda audio: audio.view(np.int32),
        lambda audio: np.concatenate((audio, [np.nan]), dtype=np.float32),
    ],
    ids=["computed", "two dimensions", "other samples", "joined"],
)
def test_what_is_made_of_valid_audio_is_validated_again(change):
    """Only slices of it stay valid."""
    with pytest.raises(AudioFormatError):
        valid_copy(change(valid_copy(np.ones(10, dtype=np.float32))))


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

    assert round(2_000 * 16_000 / rate) == len(whole)
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize(
    ("encoding", "expected"), [("mulaw", [-32124, 32124, 0]), ("alaw", [-5504, 5504, 848])]
)
def test_g711_has_the_values_of_the_standard(encoding, expected):
    """The loudest codes and one other have their values as 16-bit integers."""
    samples = PcmConverter(encoding=encoding).push(b"\x00\x80\xff")

    assert expected == (samples * 32_768).tolist()


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
