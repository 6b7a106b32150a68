"""Divide the audio of a session into pieces that a server decodes separately."""

from __future__ import annotations

import base64
from collections import deque
from enum import Enum, auto
import re
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_core.streaming import joined
from wlk_frameworks.features import background_level, loud_frames, loudness
from wlk_realtime.engine.messages import check_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

STEP_SAMPLES = 1280  # 80 ms, for which Voxtral Realtime emits one token

# 24 s.  Words without times are final only at the end of their piece, so all of a piece must fit
# into the audio that a stream keeps to resend after a lost connection.
MAX_UNTIMED_STEPS = 300

_FULL_SCALE = 32_768.0
_WORDS = re.compile(r"\s*\S+")  # each with the space before it

_MAX_SEARCH_STEPS = 750  # the last minute of a piece, in which to search for a pause
_SEARCH_DIVISOR = 4  # search at most the last quarter of the longest piece
_LOUDNESS_STEPS = 75  # 6 s, from which the background level is estimated
_LOUDNESS_FRAMES = 8 * _LOUDNESS_STEPS
_MAX_PAUSE_FRAMES = 50  # half a second, the pause between two sentences


def base64_pcm16(audio: NDArray[np.float32]) -> str:
    """Return float32[n] in [-1, 1] as base64 of little-endian int16; louder samples are clipped."""
    scaled = np.clip(np.rint(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return base64.b64encode(scaled.astype("<i2").tobytes()).decode("ascii")


def untimed_words(text: str, samples: int) -> list[Word]:
    """
    Return the words of *text*, spread evenly over a piece of *samples* samples.

    Raises:
        ServerMessageError: *text* is far too long for that audio.

    """
    texts = _WORDS.findall(check_length(text, samples / SAMPLE_RATE))
    step = samples / SAMPLE_RATE / max(1, len(texts))
    return [Word(step * n, step * (n + 1), word) for n, word in enumerate(texts)]


class Rotation:
    """
    Find a pause in which to end a piece and begin the next one.

    The closer the piece comes to its limit, the shorter a pause is accepted; at the limit, no pause
    is needed.  Each step is judged by the audio alone, so chunk sizes make no difference.
    """

    def __init__(self, max_steps: int | None) -> None:
        self._max_steps = max_steps
        self._search_steps = min(_MAX_SEARCH_STEPS, (max_steps or 0) // _SEARCH_DIVISOR)
        self._steps = 0
        self._decibels: NDArray[np.float64] = np.zeros(0)

    def is_due(self, step: NDArray[np.float32]) -> bool:
        """Append the audio of a step; return whether the piece ends after it."""
        self._steps += 1
        if self._max_steps is None:
            return False
        steps_left = self._max_steps - self._steps
        if steps_left > self._search_steps + _LOUDNESS_STEPS:
            return False
        self._decibels = np.concatenate((self._decibels, loudness(step)))[-_LOUDNESS_FRAMES:]
        if steps_left > self._search_steps:
            return False
        needed = -(-_MAX_PAUSE_FRAMES * max(0, steps_left) // max(1, self._search_steps))
        loud = loud_frames(self._decibels, background=background_level(self._decibels))
        quiet_frames = int(np.argmax(loud[::-1])) if loud.any() else len(loud)
        return quiet_frames >= needed


@attrs.frozen(kw_only=True, eq=False)
class Part:
    """Audio to send, float32[n] with n >= 0, and whether it is the first or last of its piece."""

    audio: NDArray[np.float32]
    is_first: bool
    is_last: bool


class _Piece(Enum):
    """How far the current piece has been yielded."""

    WAITING = auto()  # its first audio is yet to come
    OPEN = auto()
    CLOSED = auto()  # to its end; the server has yet to decode it


class AudioPieces:
    """
    Queue the pieces of a session, and convert the times of their words to its clock.

    An utterance is one piece, or several if it is longer than *max_steps* steps of 80 ms.  The
    audio of a piece is queued until the server has decoded the piece before it.
    """

    def __init__(self, max_steps: int | None) -> None:
        self._max_steps = max_steps
        self._rotation = Rotation(max_steps)
        self._queue: deque[NDArray[np.float32]] = deque()  # of steps
        self._begins_utterance = True  # the next audio does
        self._is_ending = False  # the utterance ends after the queued audio
        self._piece = _Piece.WAITING
        self._first_sample = 0  # of the piece, on the session's clock
        self._words: list[Word] = []
        self._last_text = ""  # of the last word committed in this utterance
        self._is_first_word = True  # the next word is the first of the piece
        #: samples of the piece yielded so far
        self.samples = 0

    @property
    def is_closed(self) -> bool:
        """Whether the piece has been yielded to its end, but the server has yet to decode it."""
        return self._piece is _Piece.CLOSED

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, neither audio nor the end of an utterance."""
        return not self._queue and not self._is_ending

    def append(self, audio: NDArray[np.float32], *, is_last: bool) -> None:
        """Append float32[n], whole steps except at the end of an utterance."""
        if self._begins_utterance:
            self._last_text = ""
        self._queue += [audio[i : i + STEP_SAMPLES] for i in range(0, len(audio), STEP_SAMPLES)]
        self._is_ending = is_last
        self._begins_utterance = is_last

    def parts(self) -> Iterator[Part]:
        """Yield the audio to send now; nothing while the server decodes the end of a piece."""
        while not self.is_closed and not self.is_idle:
            is_first = self._piece is _Piece.WAITING
            if is_first and not self._queue:
                self._is_ending = False  # it had no audio, or ended together with a piece
                return
            if is_first:
                self._rotation = Rotation(self._max_steps)
            steps: list[NDArray[np.float32]] = []
            is_due = False
            while self._queue and not is_due:
                steps.append(self._queue.popleft())
                is_due = self._rotation.is_due(steps[-1])
            is_last = is_due or (self._is_ending and not self._queue)
            self._piece = _Piece.CLOSED if is_last else _Piece.OPEN
            audio = np.concatenate(steps) if steps else np.empty(0, np.float32)
            self.samples += len(audio)
            yield Part(audio=audio, is_first=is_first, is_last=is_last)

    def finish(self) -> None:
        """Begin the next piece, after the server has decoded the current one."""
        self._piece = _Piece.WAITING
        self._is_ending = self._is_ending and bool(self._queue)
        self._first_sample += self.samples
        self.samples = 0
        self._is_first_word = True

    def commit(self, words: Iterable[Word]) -> None:
        """Add final words, with times relative to the piece."""
        placed = self.placed(words)
        self._words += placed
        if placed:
            self._last_text, self._is_first_word = placed[-1].text, False

    def placed(self, words: Iterable[Word]) -> tuple[Word, ...]:
        """Return *words* of the piece on the session's clock, spaced from the words before."""
        shifted = [word.shifted(self._first_sample / SAMPLE_RATE) for word in words]
        if shifted and self._is_first_word and self._last_text:
            shifted[0] = attrs.evolve(shifted[0], text=joined(self._last_text, shifted[0].text))
        return tuple(shifted)

    def take_words(self) -> tuple[Word, ...]:
        """Return the words committed since the last call, on the session's clock."""
        words, self._words = tuple(self._words), []
        return words

    def processed(self, samples: int) -> int:
        """Convert a number of samples of the piece to one of the session."""
        return self._first_sample + min(samples, self.samples)
