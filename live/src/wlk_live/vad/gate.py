"""Pass speech on, and measure silence to the sample."""

from __future__ import annotations

from enum import Enum
import math
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from wlk_core.errors import OptionError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import shown
from wlk_live.vad.detector import SileroDetector

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUIET_BELOW = 0.15  # Silero's own distance between the thresholds of speech and of quiet
# The hang-over is this share of the silence beyond the pre-roll, so that some is left to measure,
# but no longer than Whisper needs at the end of a word: tiny.en has 110 of 2,804 words wrong with
# 0.1 s, 117 with 0.2 s.  A flush can be prepared as soon as the hang-over was passed on.
_HANG_OVER_SHARE = 0.75
_MAX_HANG_OVER = 0.1  # seconds

# Seconds of quiet after which an utterance may be over.  In read English few quiets that the
# detector finds are shorter: of 26 a minute, 20 last 0.2 s, and 10 half a second.
_LIKELY_END = 0.06

_NO_AUDIO: NDArray[np.float32] = np.empty(0, dtype=np.float32)


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
    def hang_over(self) -> float:
        """Seconds of audio after speech that are decoded too: 0.1, less for a short silence."""
        return min(_MAX_HANG_OVER, (self.silence_seconds - self.pre_roll) * _HANG_OVER_SHARE)

    @property
    def min_silence(self) -> float:
        """The minimum length of a silence in seconds, without pre-roll and hang-over."""
        return self.silence_seconds - self.pre_roll - self.hang_over


class _State(Enum):
    START = "no speech yet, and not quiet for long enough to be a silence"
    SPEECH = "speech, or quiet that may turn out to be a pause in it"
    SILENCE = "a silence that is certain"


class SilenceGate:
    """
    Remove long silences from a stream and report their exact length in samples.

    Speech begins with a frame whose probability is at least `threshold`, and lasts while frames
    reach at least 0.15 less.  Because words begin and end softly, it includes `pre_roll` seconds
    before and `hang_over` seconds after.  A pause that would leave less than `min_silence` seconds
    of silence is passed on whole.  Speech is passed on at once, and a silence is reported when it
    is certain: `silence_seconds` after the last speech, as the nearest number of whole frames.

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
        # A silence is the nearest number of whole frames: 0.2 s are 6 (0.192 s), not 7 (0.224 s).
        frame = detector.frame_samples
        frames = math.floor(parameters.silence_seconds * SAMPLE_RATE / frame + 0.5)
        silence = max(1, frames) * frame
        self._hang_over = min(round(parameters.hang_over * SAMPLE_RATE), silence - 1)
        longest = silence - self._hang_over - 1
        self._pre_roll = min(round(parameters.pre_roll * SAMPLE_RATE), longest)
        self._min_silence = silence - self._hang_over - self._pre_roll
        self._audio = _NO_AUDIO  # from sample `_start`: undecided frames, then unclassified audio
        self._start = 0
        self._decided = 0  # samples that were passed on or are silence
        self._position = 0  # end of the last frame classified
        self._quiet_from = 0  # where silence begins unless speech follows
        self._speech_end = 0  # end of the last frame of speech
        self._state = _State.START
        self._has_speech = False  # whether speech was detected since the last silence or cut
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
        is_long = self._position - self._quiet_from >= self._min_silence
        if self._state is not _State.SILENCE and is_long:
            self._begin_silence(events)
        if self._state is _State.SILENCE:
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
        if self._state is not _State.SILENCE:
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
        if self._state is not _State.SILENCE and self._decided > 0:
            self._quiet_from = self._decided
            self._begin_silence(events)
        return events

    def skip(self, samples: int) -> list[GateEvent]:
        """Skip *samples* that were not captured: they count as silence, and end an utterance."""
        events = self.cut()
        if self._state is not _State.SILENCE:
            self._quiet_from = self._position
            self._begin_silence(events)
        self._position += len(self._unclassified()) + samples
        self._audio = _NO_AUDIO
        self._start = self._decided = self._position
        return events

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the last frame of speech while no silence is certain, else 0."""
        if self._state is not _State.SPEECH:
            return 0.0
        return (self._position - self._speech_end) / SAMPLE_RATE

    @property
    def quiet_share(self) -> float:
        """The share of the silence that ends an utterance which has passed in this quiet."""
        silence = self._pre_roll + self._hang_over + self._min_silence
        return self.quiet_seconds * SAMPLE_RATE / silence

    @property
    def holds_quiet(self) -> bool:
        """
        Whether all speech was passed on, and the quiet after it is held until it is certain.

        If it becomes a silence, that begins at the end of the audio passed on so far.
        """
        is_quiet = self.quiet_seconds >= _LIKELY_END
        return is_quiet and self._quiet_from <= self._decided < self._position

    def _unclassified(self) -> NDArray[np.float32]:
        return self._audio[self._position - self._start :]

    def _classify(self, samples: int, probability: float, events: list[GateEvent]) -> None:
        start = self._position
        self._position += samples
        is_speaking = self._state is _State.SPEECH
        if probability >= (self._quiet_threshold if is_speaking else self._threshold):
            if self._state is _State.SILENCE:
                self._decided = max(self._decided, start - self._pre_roll)
                events.append(SilenceEnded(self._silence_start, self._decided))
            self._state = _State.SPEECH
            self._has_speech = True
            self._speech_end = self._position
            self._quiet_from = self._position + self._hang_over
            self._pass_on(self._position, events)
        elif self._state is _State.SILENCE:
            self._decided = max(self._decided, self._position - self._pre_roll)
        else:
            self._pass_on(min(self._position, self._quiet_from), events)
            if self._position - self._quiet_from >= self._pre_roll + self._min_silence:
                self._begin_silence(events)

    def _begin_silence(self, events: list[GateEvent]) -> None:
        if self._quiet_from > 0:  # a stream begins in silence, so no silence starts at sample 0
            events.append(SilenceStarted(self._quiet_from))
        self._state = _State.SILENCE
        self._has_speech = False
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


def silence_gate(vad: bool | GateParameters = True) -> SilenceGate | None:  # noqa: FBT001, FBT002 -- as `vad` of `transcribe`
    """Return a gate with its own detector for one stream; None if *vad* is False."""
    if not isinstance(vad, bool | GateParameters):
        raise OptionError(f"expected `vad` as True, False or GateParameters, got {shown(vad)}")
    return None if vad is False else SilenceGate(SileroDetector(), None if vad is True else vad)
