"""Log-mel features whose frames depend on their own samples alone, however audio is chunked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_SAMPLES = 400  # 25 ms at 16 kHz, the window that Whisper introduced
FRAME_SAMPLES = 160  # 10 ms, the hop between mel frames

_LEAST = 1e-10  # energy that counts as silence
_RANGE = 8.0  # decades below the ceiling; everything quieter is raised to that floor
_LINEAR_MELS = 15  # 1000 Hz: the Slaney scale is linear below and logarithmic above
_MAX_MEL = 45.245640471924965  # 8000 Hz on the Slaney scale
_LOG_STEP = np.log(6.4) / 27  # of the logarithmic part
_WINDOW = np.hanning(WINDOW_SAMPLES + 1)[:-1]


def mel_filters(mels: int) -> NDArray[np.float64]:
    """
    Return float64[201, *mels*]: triangles on the Slaney scale from 0 to 8000 Hz, of equal area.

    This is the bank of librosa and of every Whisper implementation (Slaney, "Auditory Toolbox",
    1998).  It is float64, because some models were trained with these values and others with the
    values rounded to float32; the caller casts.
    """
    edges = np.linspace(0.0, _MAX_MEL, mels + 2)
    hertz = np.where(
        edges >= _LINEAR_MELS,
        1000 * np.exp(_LOG_STEP * (edges - _LINEAR_MELS)),
        edges * 200 / 3,
    )
    bins = np.fft.rfftfreq(WINDOW_SAMPLES, 1 / SAMPLE_RATE)
    slopes = hertz[:, None] - bins[None, :]
    widths = np.diff(hertz)[:, None]
    triangles = np.maximum(0, np.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]))
    bank: NDArray[np.float64] = (triangles * (2 / (hertz[2:] - hertz[:-2]))[:, None]).T
    return bank


@attrs.frozen(kw_only=True, eq=False)
class LogMel:
    """Log-mel features under a fixed ceiling, scaled as Whisper scales them."""

    mels: int = 128
    # The log10 energy of the loudest moment.  It is a constant of the model (1.5 in
    # arXiv:2602.11298), because a stream cannot wait for its loudest moment.
    ceiling: float = 1.5
    _filters: NDArray[np.float64] = attrs.field(init=False, repr=False)

    @_filters.default
    def _bank(self) -> NDArray[np.float64]:
        return mel_filters(self.mels)

    def __call__(self, audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """
        Return float32[frames, mels] of float32[n]: one mel frame for every window that fits.

        Frame *i* covers samples ``160 i`` to ``160 i + 400``, nothing is padded.
        """
        if len(audio) < WINDOW_SAMPLES:
            return np.zeros((0, self.mels), dtype=np.float32)
        # Sums are in float64, so that a frame does not depend on how many others are computed with
        # it.
        windows = np.lib.stride_tricks.sliding_window_view(audio, WINDOW_SAMPLES)[::FRAME_SAMPLES]
        spectrum = np.fft.rfft(windows.astype(np.float64) * _WINDOW, axis=1)
        energy = (spectrum.real**2 + spectrum.imag**2) @ self._filters
        decades = np.maximum(np.log10(np.maximum(energy, _LEAST)), self.ceiling - _RANGE)
        frames: NDArray[np.float32] = ((decades + 4.0) / 4.0).astype(np.float32)
        return frames
