"""Validate audio once, at the entrance, and convert other sample types to it explicitly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Float audio may exceed 1, for example after a mix or a gain.  16 is 24 dB above full scale, which
# no recording needs, and 66 dB below the full scale of int16, so that integers that were cast and
# not scaled exceed it as soon as there is any sound.
MAX_SAMPLE = 16.0

# Full scale of the integer sample types, and the value that stands for silence.
_INTEGERS = {
    np.dtype(np.uint8): (128.0, 128.0),
    np.dtype(np.int16): (32_768.0, 0.0),
    np.dtype(np.int32): (2_147_483_648.0, 0.0),
}


def to_float32(samples: NDArray[np.generic]) -> NDArray[np.float32]:
    """
    Convert int16, int32, uint8 or float64 samples of any shape to float32.

    Integers are scaled by their full scale, so that they fill [-1, 1]; uint8 is the unsigned
    8-bit PCM of wav files, with 128 as silence.  float64 is narrowed and never scaled; float32 is
    returned as it is, not copied.  Integers of either byte order are understood.

    NaN, infinity and samples out of range pass through, because every stream checks its samples
    with `validate_audio`.  The sample rate does not change: see `Resampler`.  Raises
    AudioFormatError for another sample type, or what is not a numpy array.
    """
    _require_array(samples)
    kind = samples.dtype.newbyteorder("=")
    if kind == np.float32:
        return samples.astype(np.float32, copy=False)
    if kind == np.float64:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinity, for validation
            return samples.astype(np.float32)
    # Integers alone are scaled, because the type of a float array does not tell its scale.
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
    Raise AudioFormatError unless *samples* is one channel of float32, of any length and strides.

    NaN, infinity and samples beyond `MAX_SAMPLE` are not sound: integers that were not scaled, or
    damage.  The check takes some microseconds for a tenth of a second.
    """
    _require_array(samples)
    if samples.ndim != 1:
        # The channels are the short axis: the first of torchaudio, the last of soundfile.
        axis = int(np.argmin(samples.shape)) if samples.ndim else 0
        raise AudioFormatError(
            f"expected one channel of samples, shape (n,), got shape {samples.shape}; "
            f"mix the channels first: wlk_core.to_float32(samples).mean(axis={axis})"
        )
    if samples.dtype != np.float32:
        raise AudioFormatError(
            f"expected float32 samples, got {samples.dtype}; "
            "convert them with wlk_core.to_float32(samples)"
        )
    if (first := first_impossible_sample(samples)) is not None:
        raise AudioFormatError(
            f"expected samples within [-1, 1], {MAX_SAMPLE:.0f} at most, got {samples[first]} at "
            f"sample {first} of {len(samples)} ({first / SAMPLE_RATE:.3f} s into the chunk); "
            "repair the source, or scale integers with wlk_core.to_float32(samples)"
        )


def first_impossible_sample(samples: NDArray[np.float32]) -> int | None:
    """Return the index of the first NaN, infinity or sample out of range of float32[n], or None."""
    # A single pass over most audio: no sample exceeds the root of the sum of squares, and NaN and
    # infinity survive in it.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dot(samples, samples) <= MAX_SAMPLE**2:
            return None
    is_possible = np.abs(samples) <= MAX_SAMPLE  # false for NaN
    return None if is_possible.all() else int(np.argmin(is_possible))


class ValidAudio(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """
    Read-only float32[n] that passed `validate_audio` and that no caller has a reference to.

    Slices are valid as well; what numpy computes from it is writeable, and thereby unknown again.
    """

    # A session validates and copies audio when it comes in and gives it to a processor, whose
    # `insert_audio_chunk` has to do the same for any other caller.  The type of the array tells
    # both that it was done.


def valid_copy(audio: NDArray[np.float32]) -> ValidAudio:
    """Return *audio* itself if it is valid, else a validated copy; raises as `validate_audio`."""
    if (
        isinstance(audio, ValidAudio)
        and not audio.flags.writeable
        and audio.ndim == 1  # else it is another view
        and audio.dtype == np.float32
    ):
        return audio
    validate_audio(audio)
    return sealed(np.array(audio))  # a plain array, whatever the caller's class


def sealed(audio: NDArray[np.float32]) -> ValidAudio:
    """Return validated float32[n], to which the caller keeps no other reference, as valid."""
    audio.flags.writeable = False
    return audio.view(ValidAudio)


def _require_array(samples: object) -> None:
    if not isinstance(samples, np.ndarray):
        raise AudioFormatError(
            f"expected a numpy array of samples, got {type(samples).__name__}; convert raw bytes "
            "with wlk_core.to_float32(numpy.frombuffer(data, dtype='int16'))"
        )
