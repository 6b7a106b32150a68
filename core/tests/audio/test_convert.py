"""Validating audio, and converting other sample types."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
import numpy as np
import pytest

from wlk_core.audio import to_float32, validate_audio
from wlk_core.audio.convert import first_impossible_sample
from wlk_core.errors import AudioFormatError

PCM = [np.dtype(name) for name in ("i2", "i4", "u1", "f4", "f8")]
DTYPES = [*PCM, *(np.dtype(name) for name in (">i2", ">f4", "f2", "i1", "u2", "i8", "c8", "?"))]


def read_only(samples):
    """Return *samples* after forbidding writes to them."""
    samples.flags.writeable = False
    return samples


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(np.array([-32768, 0, 16384], np.int16), [-1.0, 0.0, 0.5], id="int16"),
        pytest.param(np.array([-(2**31), 0, 2**30], np.int32), [-1.0, 0.0, 0.5], id="int32"),
        pytest.param(np.array([0, 128, 192], np.uint8), [-1.0, 0.0, 0.5], id="uint8"),
        pytest.param(np.array([-1.0, 0.0, 0.5], np.float64), [-1.0, 0.0, 0.5], id="float64"),
        pytest.param(np.array([-32768, 0, 16384], ">i2"), [-1.0, 0.0, 0.5], id="big-endian"),
        pytest.param(np.array([], np.int16), [], id="nothing"),
    ],
)
def test_samples_of_every_pcm_type_become_float32_in_full_scale(samples, expected):
    """Integers are scaled by their full scale, floats are not scaled."""
    converted = to_float32(samples)

    assert np.float32 == converted.dtype
    assert expected == converted.tolist()


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(np.zeros(8, np.int64), id="int64"),
        pytest.param(np.zeros(8, bool), id="bool"),
        pytest.param(np.zeros(8, np.complex64), id="complex"),
        pytest.param(np.array([None, None]), id="objects"),
        pytest.param(np.float32(0.0), id="scalar"),
        pytest.param([0.0, 0.5], id="list"),
        pytest.param(b"\0\0", id="bytes"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(samples):
    """The message states the sample types accepted and the one that came."""
    with pytest.raises(AudioFormatError, match=r"^expected .*, got .*; "):
        to_float32(samples)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(np.zeros(0, np.float32), id="nothing"),
        pytest.param(np.zeros(1, np.float32), id="one sample"),
        pytest.param(np.zeros(3200, np.float32)[::2], id="every other sample"),
        pytest.param(np.full(1600, 1.5, np.float32), id="above full scale"),
        pytest.param(np.full(96_000, -16, np.float32), id="the loudest that is possible"),
        pytest.param(read_only(np.full(8, 0.5, np.float32)), id="read-only"),
        pytest.param(np.full(8, 0.5, np.float32)[::-1], id="backwards"),
    ],
)
def test_finite_float32_is_valid_audio(samples):
    """Length, layout, memory and a level above 1 do not matter, and no sample is changed."""
    before = samples.copy()
    validate_audio(samples)

    assert before.tolist() == samples.tolist()
    assert first_impossible_sample(samples) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("level", [0.1, 3e38], ids=["normal", "huge"])
def test_a_sample_that_is_not_a_number_is_named_with_its_index(value, level):
    """One invalid sample among many is found, whatever the others are."""
    samples = np.full(1600, level, np.float32)
    samples[800] = value

    with pytest.raises(AudioFormatError, match=rf"got {value} at sample 800 of 1600 \(0\.050 s"):
        validate_audio(samples)


@pytest.mark.parametrize("quiet", [0, 1600, 200_000], ids="{} samples before".format)
@pytest.mark.parametrize("value", [16.01, -32768.0, 1e30, -3e38], ids=str)
def test_a_sample_beyond_all_sound_is_refused_with_the_remedy(value, quiet):
    """Integers cast to float and not scaled are the commonest mistake."""
    samples = np.full(quiet + 100, 0.5, np.float32)
    samples[quiet + 7] = value

    with pytest.raises(AudioFormatError, match=rf"at sample {quiet + 7} of .*to_float32"):
        validate_audio(samples)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(samples=arrays(st.sampled_from(DTYPES), array_shapes(min_dims=0, max_dims=3), elements={}))
def test_any_array_is_converted_or_refused_with_one_line(samples):
    """A PCM type keeps its shape; everything else is AudioFormatError."""
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


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        pytest.param(np.zeros(8, np.int16), "got int16; .*to_float32", id="int16"),
        pytest.param(np.zeros(8), "got float64; .*to_float32", id="float64"),
        pytest.param(np.zeros((8, 2), np.float32), r"shape \(8, 2\); .*axis=1", id="channels last"),
        pytest.param(np.zeros((2, 8), np.int16), r"shape \(2, 8\); .*axis=0", id="channels first"),
        pytest.param(np.zeros((), np.float32), r"got shape \(\)", id="scalar"),
        pytest.param([0.0], "got list", id="list"),
    ],
)
def test_other_ranks_and_types_are_refused(samples, complaint):
    """Nothing is converted in silence."""
    with pytest.raises(AudioFormatError, match=complaint):
        validate_audio(samples)
