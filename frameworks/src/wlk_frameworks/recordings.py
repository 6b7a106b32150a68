"""Read a whole recording, for enrolment, training tools and tests; needs the extra `recordings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import soundfile
import soxr

from wlk_core.audio import validate_audio
from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def read_recording(path: Path) -> NDArray[np.float32]:
    """
    Return a recording as float32[n] at 16 kHz, its channels averaged.

    libsndfile reads wav, flac, ogg, mp3 and others; wlk-live decodes any other container.

    Raises:
        AudioFormatError: the file cannot be read, or holds samples that are not finite.

    """
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise AudioFormatError(f"{path} cannot be read as a recording: {error}") from error
    audio = samples.mean(axis=1, dtype=np.float32)
    if rate != SAMPLE_RATE:
        audio = soxr.resample(audio, rate, SAMPLE_RATE)
    audio = np.ascontiguousarray(audio, dtype=np.float32)
    validate_audio(audio)
    return audio
