"""Validate audio once, where it enters, and convert other sample types to float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Float audio can exceed 1, for example after mixing or gain.  16 is 24 dB above full scale, more
# than any recording needs, and 66 dB below the full scale of int16, so integers that were cast but
# not scaled exceed it as soon as there is any sound.
MAX_SAMPLE = 16.0

# Full scale of each integer sample type, and the value of silence.
_INTEGERS = {
    np.dtype(np.uint8): (128.0, 128.0),
    np.dtype(np.int16): (32_768.0, 0.0),
    np.dtype(np.int32): (2_147_483_648.0, 0.0),
}


def to_float32(samples: NDArray[np.generic]) -> NDArray[np.float32]:
    """
    Convert int16, int32, uint8 or float64 samples of any shape to float32.

    Integers of either byte order are divided by their full scale, so that they lie in [-1, 1];
    uint8 is the unsigned 8-bit PCM of wav files, where 128 is silence.  float64 is narrowed but
    never scaled; float32 is returned without a copy.

    NaN, infinity and out-of-range samples pass through, because every stream checks its samples
    with `validate_audio`.  The sample rate does not change.  Raises
    AudioFormatError for any other sample type, or if *samples* is not a numpy array.
    """
    _require_array(samples)
    kind = samples.dtype.newbyteorder("=")
    if kind == np.float32:
        return samples.astype(np.float32, copy=False)
    if kind == np.float64:
        with np.errstate(over="ignore"):  # overflow to infinity is left to validation
            return samples.astype(np.float32)
    # Only integers are scaled, because a float dtype does not tell the scale of its samples.
    if kind in _INTEGERS:
        full_scale, silence = _INTEGERS[kind]
        floats = samples.astype(np.float32)  # the only copy
        floats -= np.float32(silence)
        floats *= np.float32(1.0 / full_scale)
        return floats
    raise AudioFormatError(
        f"expected int16, int32, uint8, float64 or float32 samples, got {samples.dtype}; "
        "scale them to [-1, 1] and convert with samples.astype('float32')"
    )


def validate_audio(samples: NDArray[np.float32]) -> None:
    """
    Raise AudioFormatError unless *samples* is one channel of float32, of any length and strides.

    NaN, infinity and samples beyond `MAX_SAMPLE` are rejected: they come from unscaled integers or
    damage.  The check takes a few microseconds for 0.1 s of audio.
    """
    _require_array(samples)
    if samples.ndim != 1:
        # The shortest axis holds the channels: torchaudio puts them first, soundfile last.
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
    """Return the index in float32[n] of the first NaN, infinity or out-of-range sample, or None."""
    # One pass is enough for most audio: no sample exceeds the root of the sum of squares, which
    # also preserves NaN and infinity.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dot(samples, samples) <= MAX_SAMPLE**2:
            return None
    is_possible = np.abs(samples) <= MAX_SAMPLE  # false for NaN
    return None if is_possible.all() else int(np.argmin(is_possible))


class ValidAudio(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """
    Read-only float32[n] that passed `validate_audio` and that no caller can modify.

    Slices are valid too; what numpy computes from it is writeable and has to be validated again.
    """

    # A session validates and copies the audio that it receives.  The type tells a processor's
    # `insert_audio_chunk`, which has to do both for any other caller, that this was done.


def valid_copy(audio: NDArray[np.float32]) -> ValidAudio:
    """Return *audio* itself if it is valid, else a validated copy; raises as `validate_audio`."""
    if (
        isinstance(audio, ValidAudio)
        and not audio.flags.writeable
        and audio.ndim == 1  # a view can have another shape or dtype
        and audio.dtype == np.float32
    ):
        return audio
    validate_audio(audio)
    return sealed(np.array(audio))  # a plain array even if *audio* is of a subclass


def sealed(audio: NDArray[np.float32]) -> ValidAudio:
    """Return validated float32[n] as ValidAudio; the caller must keep no other reference to it."""
    audio.flags.writeable = False
    return audio.view(ValidAudio)


def _require_array(samples: object) -> None:
    if not isinstance(samples, np.ndarray):
        raise AudioFormatError(
            f"expected a numpy array of samples, got {type(samples).__name__}; convert raw bytes "
            "with wlk_core.to_float32(numpy.frombuffer(data, dtype='int16'))"
        )
