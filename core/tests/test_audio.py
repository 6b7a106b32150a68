"""Audio of other sample types is converted, and audio that no microphone records is refused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_core.audio import to_float32, valid_copy, validate_audio

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

    assert converted.dtype == np.float32
    assert converted.tolist() == expected


@settings(max_examples=200)
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
    assert (converted.dtype, converted.shape) == (np.float32, samples.shape)
    assert samples.dtype.kind == "f" or not samples.size or np.abs(converted).max() <= 1
    assert np.array_equal(samples, untouched, equal_nan=samples.dtype.kind in "fc")


@settings(max_examples=200)
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
