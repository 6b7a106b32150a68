"""Passing speech on and measuring the silence between, to the sample."""

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

_NOTHING: NDArray[np.float32] = np.empty(0, dtype=np.float32)


@attrs.frozen
class SpeechAudio:
    """Audio to be heard: float32[n], n >= 1, from sample `start_sample` of the stream on."""

    samples: NDArray[np.float32] = attrs.field(eq=attrs.cmp_using(eq=np.array_equal))
    start_sample: int


@attrs.frozen
class SilenceStarted:
    """From `at_sample` on, nobody speaks; all audio before it was passed on."""

    at_sample: int


@attrs.frozen
class SilenceEnded:
    """Nobody spoke from `start_sample` up to, not including, `end_sample`."""

    start_sample: int
    end_sample: int


GateEvent: TypeAlias = SpeechAudio | SilenceStarted | SilenceEnded


class SilenceGate:
    """
    Leave long silences out of a stream and say to the sample how long they were.

    Speech begins with a frame of at least `threshold` and lasts while frames of at least
    `quiet_threshold` come.  `pre_roll` seconds before it and `hang_over` seconds behind it belong
    to it, so that soft beginnings and endings are heard, and what would leave less than
    `min_silence` seconds of silence is passed on whole.  Speech passes at once; a silence is
    announced when it is sure, hang_over + pre_roll + min_silence after the last speech frame.

    A stream begins in silence: one at its very beginning has a SilenceEnded and no
    SilenceStarted; all others have both, in this order and with nothing between them.  Speech and
    silences follow one another without gap or overlap and add up to the samples pushed.  How the
    stream is cut into pushes moves no boundary: only a stretch of speech may come in other pieces.

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
        self._rest = _NOTHING  # less than a frame, not heard yet
        self._held: deque[NDArray[np.float32]] = deque()  # heard, neither passed on nor left out
        self._clear()

    def push(self, audio: NDArray[np.float32]) -> list[GateEvent]:
        """
        Take in valid audio, float32[n] with n >= 0, and return what became sure by it.

        The audio is copied.
        """
        size = self._detector.frame_samples
        audio = np.concatenate((self._rest, audio))
        whole = len(audio) - len(audio) % size
        events: list[GateEvent] = []
        for start in range(0, whole, size):
            frame = audio[start : start + size]
            self._hear(frame, self._detector(frame), events)
        self._rest = audio[whole:].copy()
        # What is held must not keep the whole of a long push alive.
        self._held = deque(piece.copy() for piece in self._held)
        return list(_merged(events))

    def flush(self) -> list[GateEvent]:
        """
        End the stream: return the rest of it and begin a new one, at sample 0.

        An open silence ends with the audio.
        """
        events: list[GateEvent] = []
        if len(self._rest):
            missing = self._detector.frame_samples - len(self._rest)
            probability = self._detector(np.pad(self._rest, (0, missing)))
            self._hear(self._rest, probability, events)
        if not self._is_silent and self._position - self._quiet_from >= self._min_silence:
            self._fall_silent(events)
        if self._is_silent:
            events.append(SilenceEnded(self._silence_start, self._position))
        else:
            self._pass_on(self._position, events)
        self._clear()
        self._detector.reset()
        return list(_merged(events))

    def _clear(self) -> None:
        self._rest = _NOTHING
        self._position = 0  # end of the last frame heard
        self._held.clear()
        self._held_start = 0
        self._quiet_from = 0  # where silence begins if no more speech comes
        self._is_speaking = False
        self._is_silent = False  # whether a silence is sure
        self._silence_start = 0

    def _hear(
        self, frame: NDArray[np.float32], probability: float, events: list[GateEvent]
    ) -> None:
        start = self._position
        self._position += len(frame)
        self._held.append(frame)
        if probability >= (self._quiet_threshold if self._is_speaking else self._threshold):
            if self._is_silent:
                self._leave_out(start - self._pre_roll)
                events.append(SilenceEnded(self._silence_start, self._held_start))
            self._is_speaking, self._is_silent = True, False
            self._quiet_from = self._position + self._hang_over
            self._pass_on(self._position, events)
        elif self._is_silent:
            self._leave_out(self._position - self._pre_roll)
        else:
            self._pass_on(min(self._position, self._quiet_from), events)
            if self._position - self._quiet_from >= self._pre_roll + self._min_silence:
                self._fall_silent(events)

    def _fall_silent(self, events: list[GateEvent]) -> None:
        if self._quiet_from > 0:  # the stream begins in silence: nothing starts there
            events.append(SilenceStarted(self._quiet_from))
        self._is_speaking, self._is_silent = False, True
        self._silence_start = self._quiet_from
        self._leave_out(self._position - self._pre_roll)

    def _pass_on(self, end: int, events: list[GateEvent]) -> None:
        events.extend(SpeechAudio(piece, start) for start, piece in self._taken(end))

    def _leave_out(self, end: int) -> None:
        for _ in self._taken(end):
            pass

    def _taken(self, end: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield what is held before sample *end*, with the number of its first sample."""
        while self._held_start < end:
            piece = self._held.popleft()
            wanted = end - self._held_start
            if wanted < len(piece):
                self._held.appendleft(piece[wanted:])
                piece = piece[:wanted]
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
        yield SpeechAudio(np.concatenate(samples), pieces[0].start_sample)
