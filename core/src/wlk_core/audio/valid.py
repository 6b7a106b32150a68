"""Audio that was checked and copied once, at the entrance, and needs neither again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.audio.convert import validate_audio

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ValidAudio", "sealed", "valid_copy"]


class ValidAudio(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """
    Read-only float32[n] that passed `validate_audio` and that no caller has a reference to.

    A session validates and copies audio when it comes in and gives it to a processor, whose
    `insert_audio_chunk` has to do the same for any other caller.  The type of the array tells both
    that it was done.  Slices are valid as well; what numpy computes from it is writeable, and
    thereby unknown again.
    """

    __slots__ = ()


def valid_copy(audio: NDArray[np.float32]) -> ValidAudio:
    """
    Return *audio* itself if it is valid, else a validated copy.

    Raises:
        AudioFormatError: see `validate_audio`.

    """
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
