"""Pass speech on and measure the silence between, to the sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from wlk_core.errors import OptionError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import real_number, shown
from wlk_core.vad.detector import SileroDetector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.vad.detector import SpeechDetector

__all__ = [
    "GateEvent",
    "GateParameters",
    "SilenceEnded",
    "SilenceGate",
    "SilenceStarted",
    "SpeechAudio",
    "silence_gate",
]

_QUIET_BELOW = 0.15  # Silero's own distance between the thresholds of speech and of quiet
_HANG_OVER_PART = 0.75  # of the silence beyond the pre-roll; 0.6 s of the default 0.8 s

_NO_AUDIO: NDArray[np.float32] = np.empty(0, dtype=np.float32)


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


class SilenceGate:
    """
    Remove long silences from a stream and report their exact length in samples.

    Speech begins with a frame of at least `threshold` and lasts while frames of at least
    `quiet_threshold` follow.  It includes `pre_roll` seconds before and `hang_over` seconds after,
    because words begin and end softly.  A pause that would leave less than `min_silence` seconds of
    silence is passed on whole.  Speech is passed on at once.  A silence is reported when it is
    certain, hang_over + pre_roll + min_silence seconds after the last speech frame.

    A stream begins in silence: a silence at its very beginning has a SilenceEnded and no
    SilenceStarted.  All others have both, in this order and with nothing between them.  Speech and
    silences follow one another without gap or overlap and add up to the samples pushed.  How the
    stream is cut into pushes moves no boundary: only speech may come in other pieces.

    At most pre_roll + min_silence seconds and a frame are held.
    """

    def __init__(
        self,
        detector: SpeechDetector,
        *,
        threshold: float = 0.5,
        quiet_threshold: float = 0.35,  # Silero's own distance, 0.15 below
        pre_roll: float = 0.4,
        hang_over: float = 0.6,
        min_silence: float = 0.2,
    ) -> None:
        self._detector = detector
        self._threshold = threshold
        self._quiet_threshold = quiet_threshold
        self._pre_roll = round(pre_roll * SAMPLE_RATE)
        self._hang_over = round(hang_over * SAMPLE_RATE)
        self._min_silence = max(1, round(min_silence * SAMPLE_RATE))
        self._clear()

    def _clear(self) -> None:
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

    def push(self, audio: NDArray[np.float32]) -> list[GateEvent]:
        """
        Append valid audio, float32[n] with n >= 0; return the events that became certain by it.

        The audio is copied.
        """
        self._audio = np.concatenate((self._audio, audio))
        events: list[GateEvent] = []
        size = self._detector.frame_samples
        while len(rest := self._rest()) >= size:
            self._classify(size, self._detector(rest[:size]), events)
        # A copy, because a view would keep the whole of a long push in memory.
        self._audio, self._start = self._audio[self._decided - self._start :].copy(), self._decided
        return events

    def flush(self) -> list[GateEvent]:
        """
        End the stream: return its last events and begin a new one, at sample 0.

        An open silence ends with the audio.
        """
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
        self._clear()
        self._detector.reset()
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

    def _rest(self) -> NDArray[np.float32]:
        """Return the audio that was not classified yet."""
        return self._audio[self._position - self._start :]

    def _classify(self, samples: int, probability: float, events: list[GateEvent]) -> None:
        """Decide what the next *samples* mean, which are speech with *probability*."""
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


@attrs.frozen(kw_only=True)
class GateParameters:
    """
    Voice activity detection as users know it.

    Attributes:
        threshold: the probability from which a frame is speech.
        silence_seconds: how much quiet ends an utterance.
        pre_roll: seconds of audio before speech that are decoded too.

    Raises:
        OptionError: `threshold` is not in [0, 1], or not 0 <= `pre_roll` < `silence_seconds`.

    """

    threshold: float = 0.5
    silence_seconds: float = 1.2
    pre_roll: float = 0.4

    def __attrs_post_init__(self) -> None:
        threshold = real_number(self.threshold)
        if threshold is None or not 0 <= threshold <= 1:
            raise OptionError(
                f"expected a threshold of speech from 0 to 1, got {shown(self.threshold)}"
            )
        silence, pre_roll = real_number(self.silence_seconds), real_number(self.pre_roll)
        if silence is None or pre_roll is None or not 0 <= pre_roll < silence < math.inf:
            raise OptionError(
                "expected a pre-roll of 0 s or more and a longer silence, got a pre-roll of "
                f"{shown(self.pre_roll)} and a silence of {shown(self.silence_seconds)}"
            )

    def lengths(self) -> dict[str, float]:
        """Return the arguments of SilenceGate."""
        rest = self.silence_seconds - self.pre_roll
        return {
            "threshold": self.threshold,
            "quiet_threshold": max(0.0, self.threshold - _QUIET_BELOW),
            "pre_roll": self.pre_roll,
            "hang_over": rest * _HANG_OVER_PART,
            "min_silence": rest * (1 - _HANG_OVER_PART),
        }


def silence_gate(vad: bool | GateParameters = True) -> SilenceGate | None:  # noqa: FBT001, FBT002 -- as `vad` of Backend.transcribe
    """
    Return a gate with its own detector for one stream; None where *vad* is False.

    Raises:
        OptionError: *vad* is neither a bool nor GateParameters.

    """
    if isinstance(vad, GateParameters):
        return SilenceGate(SileroDetector(), **vad.lengths())
    if not isinstance(vad, bool):
        raise OptionError(f"expected `vad` as True, False or GateParameters, got {shown(vad)}")
    return SilenceGate(SileroDetector()) if vad else None
