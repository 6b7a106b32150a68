"""Validate audio, and convert other sample types to it explicitly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["to_float32", "validate_audio"]

# Full scale of the integer sample types, and the value that stands for silence.
_INTEGERS = {
    np.dtype(np.uint8): (128.0, 128.0),
    np.dtype(np.int16): (32_768.0, 0.0),
    np.dtype(np.int32): (2_147_483_648.0, 0.0),
}
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


def to_float32(samples: NDArray[np.generic]) -> NDArray[np.float32]:
    """
    Convert one channel of int16, int32, uint8 or float64 samples to float32.

    Integers are scaled by their full scale, so that they fill [-1, 1]; uint8 is the unsigned
    8-bit PCM of wav files, with 128 as silence.  float64 is narrowed and never scaled; float32 is
    returned as it is, not copied.  Integers of either byte order are understood.

    NaN and infinity pass through, because every stream checks its samples with `validate_audio`.
    The sample rate does not change: see `Resampler`.

    Raises:
        AudioFormatError: not a numpy array, more than one dimension, or another sample type.

    """
    _require_one_channel(samples)
    kind = samples.dtype.newbyteorder("=")
    if kind == _FLOAT32:
        return samples.astype(np.float32, copy=False)
    if kind == _FLOAT64:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinity, for validation
            return samples.astype(np.float32)
    if kind in _INTEGERS:
        full_scale, silence = _INTEGERS[kind]
        floats = samples.astype(np.float32)
        return (floats - np.float32(silence)) * np.float32(1.0 / full_scale)
    raise AudioFormatError(
        f"expected int16, int32, uint8, float64 or float32 samples, got {samples.dtype}; "
        "scale them to [-1, 1] and convert with samples.astype('float32')"
    )


def validate_audio(samples: NDArray[np.float32]) -> None:
    """
    Check that *samples* is one channel of finite float32, of any length, contiguous or not.

    The check takes a microsecond or two for a tenth of a second.  The sample rate is not checked,
    because samples do not contain it.

    Raises:
        AudioFormatError: not a numpy array, another rank or dtype, NaN or infinity.

    """
    _require_one_channel(samples)
    if samples.dtype != _FLOAT32:
        raise AudioFormatError(
            f"expected float32 samples, got {samples.dtype}; "
            "convert them with wlk_core.to_float32(samples)"
        )
    # NaN and infinity survive in a sum of squares.  Finite but huge samples overflow it too, so
    # only a finite sum decides here; the exact check below costs three times as much.
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(np.dot(samples, samples)):
            return
    finite = np.isfinite(samples)
    if finite.all():
        return
    first = int(np.argmin(finite))
    raise AudioFormatError(
        f"expected finite samples, got {samples[first]} at sample {first} of {len(samples)} "
        f"({first / SAMPLE_RATE:.3f} s into the chunk); repair or replace the source"
    )


def _require_one_channel(samples: NDArray[np.generic]) -> None:
    if not isinstance(samples, np.ndarray):
        raise AudioFormatError(
            f"expected a numpy array of samples, got {type(samples).__name__}; "
            "wrap raw bytes with numpy.frombuffer(data, dtype='int16')"
        )
    if samples.ndim != 1:
        raise AudioFormatError(
            f"expected one channel of samples, shape (n,), got shape {samples.shape}; "
            "mix the channels first, for example samples.mean(axis=1)"
        )
