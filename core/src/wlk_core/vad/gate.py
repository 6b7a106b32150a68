"""Pass speech on and measure the silence between, to the sample."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from wlk_core.vad.detector import SpeechDetector

__all__ = ["GateEvent", "SilenceEnded", "SilenceGate", "SilenceStarted", "SpeechAudio"]

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

    Raises:
        ValueError: a threshold or a length is out of range.

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
        if not 0 <= quiet_threshold <= threshold <= 1:
            raise ValueError(
                "expected 0 <= `quiet_threshold` <= `threshold` <= 1, "
                f"got {quiet_threshold} and {threshold}"
            )
        for name, seconds in [
            ("pre_roll", pre_roll),
            ("hang_over", hang_over),
            ("min_silence", min_silence),
        ]:
            if not 0 <= seconds < float("inf"):
                raise ValueError(f"expected `{name}` in seconds, 0 or more, got {seconds}")
        self._detector = detector
        self._threshold = threshold
        self._quiet_threshold = quiet_threshold
        self._pre_roll = round(pre_roll * SAMPLE_RATE)
        self._hang_over = round(hang_over * SAMPLE_RATE)
        self._min_silence = max(1, round(min_silence * SAMPLE_RATE))
        self._rest = _NO_AUDIO  # less than a frame, not classified yet
        self._held: deque[NDArray[np.float32]] = deque()  # classified, but still undecided
        self._clear()

    def push(self, audio: NDArray[np.float32]) -> list[GateEvent]:
        """
        Append valid audio, float32[n] with n >= 0; return the events that became certain by it.

        The audio is copied.
        """
        size = self._detector.frame_samples
        audio = np.concatenate((self._rest, audio))
        whole = len(audio) - len(audio) % size
        events: list[GateEvent] = []
        for start in range(0, whole, size):
            frame = audio[start : start + size]
            self._classify(frame, self._detector(frame), events)
        self._rest = audio[whole:].copy()
        # The pieces held are copied, because a view would keep the whole of a long push in memory.
        self._held = deque(piece.copy() for piece in self._held)
        return list(_merged(events))

    def flush(self) -> list[GateEvent]:
        """
        End the stream: return its last events and begin a new one, at sample 0.

        An open silence ends with the audio.
        """
        events: list[GateEvent] = []
        if len(self._rest):
            missing = self._detector.frame_samples - len(self._rest)
            probability = self._detector(np.pad(self._rest, (0, missing)))
            self._classify(self._rest, probability, events)
        if not self._is_silent and self._position - self._quiet_from >= self._min_silence:
            self._begin_silence(events)
        if self._is_silent:
            events.append(SilenceEnded(self._silence_start, self._position))
        else:
            self._pass_on(self._position, events)
        self._clear()
        self._detector.reset()
        return list(_merged(events))

    def _clear(self) -> None:
        self._rest = _NO_AUDIO
        self._position = 0  # end of the last frame classified
        self._held.clear()
        self._held_start = 0
        self._quiet_from = 0  # where silence begins unless speech follows
        self._speech_end = 0  # end of the last frame of speech
        self._is_speaking = False
        self._has_speech = False  # whether speech was detected since the last silence or cut
        self._is_silent = False  # whether a silence is certain
        self._silence_start = 0

    def cut(self) -> list[GateEvent]:
        """
        Pass on all speech that was pushed, because the caller ends the utterance here.

        A silence that is certain goes on.  The detector's next frame begins with the next sample.
        Quiet audio after the cut is held until speech follows or the silence is certain, because
        the hang-over belongs to the utterance that was ended.
        """
        events: list[GateEvent] = []
        if not self._is_silent:
            if len(self._rest):
                self._held.append(self._rest)
                self._position += len(self._rest)
                self._rest = _NO_AUDIO
            self._pass_on(self._position, events)
            self._quiet_from = self._position
            self._has_speech = False
        return list(_merged(events))

    def end_speech(self) -> list[GateEvent]:
        """
        Begin the silence now, without waiting until it is certain.

        For a caller that knows that a turn is over, such as a turn detector.  The silence begins
        after the audio that was passed on; one that is certain already goes on.
        """
        events: list[GateEvent] = []
        if not self._is_silent and self._held_start > 0:
            self._quiet_from = self._held_start
            self._begin_silence(events)
        return list(_merged(events))

    def skip(self, samples: int) -> list[GateEvent]:
        """Pass over *samples* that were not captured: they are silence, and an utterance ends."""
        events = self.cut()
        if self._is_silent:
            self._position += len(self._rest)
            self._rest = _NO_AUDIO
        else:
            self._quiet_from = self._position
            self._begin_silence(events)
        self._position += samples
        self._held.clear()
        self._held_start = self._position
        return events

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the last frame of speech while no silence is certain, else 0."""
        if self._is_silent or not self._is_speaking:
            return 0.0
        return (self._position - self._speech_end) / SAMPLE_RATE

    def _classify(
        self, frame: NDArray[np.float32], probability: float, events: list[GateEvent]
    ) -> None:
        start = self._position
        self._position += len(frame)
        self._held.append(frame)
        if probability >= (self._quiet_threshold if self._is_speaking else self._threshold):
            if self._is_silent:
                self._remove(start - self._pre_roll)
                events.append(SilenceEnded(self._silence_start, self._held_start))
            self._is_speaking, self._is_silent, self._has_speech = True, False, True
            self._speech_end = self._position
            self._quiet_from = self._position + self._hang_over
            self._pass_on(self._position, events)
        elif self._is_silent:
            self._remove(self._position - self._pre_roll)
        else:
            self._pass_on(min(self._position, self._quiet_from), events)
            if self._position - self._quiet_from >= self._pre_roll + self._min_silence:
                self._begin_silence(events)

    def _begin_silence(self, events: list[GateEvent]) -> None:
        if self._quiet_from > 0:  # a stream begins in silence, so no silence starts at sample 0
            events.append(SilenceStarted(self._quiet_from))
        self._is_speaking, self._is_silent, self._has_speech = False, True, False
        self._silence_start = self._quiet_from
        self._remove(self._position - self._pre_roll)

    def _pass_on(self, end: int, events: list[GateEvent]) -> None:
        is_detected = self._has_speech
        events.extend(SpeechAudio(piece, start, is_detected) for start, piece in self._release(end))

    def _remove(self, end: int) -> None:
        for _ in self._release(end):
            pass

    def _release(self, end: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the pieces held before sample *end*, each with the index of its first sample."""
        while self._held_start < end:
            piece = self._held.popleft()
            length = end - self._held_start
            if length < len(piece):
                self._held.appendleft(piece[length:])
                piece = piece[:length]
            start = self._held_start
            self._held_start += len(piece)
            yield start, piece


def _merged(events: Iterable[GateEvent]) -> Iterator[GateEvent]:
    """Join speech that follows on speech."""
    for is_speech, group in groupby(events, key=lambda event: isinstance(event, SpeechAudio)):
        if not is_speech:
            yield from group
            continue
        pieces = [event for event in group if isinstance(event, SpeechAudio)]
        samples = [piece.samples for piece in pieces]
        is_detected = any(piece.is_detected for piece in pieces)
        yield SpeechAudio(np.concatenate(samples), pieces[0].start_sample, is_detected)
