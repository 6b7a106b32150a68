"""Audio as the bytes of a WAV file, in memory."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING
import wave

import numpy as np

from wlk_core.plugins import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["pcm_wav"]


def pcm_wav(audio: NDArray[np.float32]) -> bytes:
    """Return float32[n] at 16 kHz as a WAV file of one channel of 16-bit samples."""
    samples = np.clip(np.rint(audio * 32768.0), -32768, 32767).astype("<i2")
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes(samples.tobytes())
    return file.getvalue()
