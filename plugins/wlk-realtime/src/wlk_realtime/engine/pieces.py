"""Divide the audio of a session into pieces that a server decodes by themselves."""

from __future__ import annotations

import base64
from collections import deque
import re
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_core.streaming import background_level, joined, loud_frames, loudness
from wlk_realtime.engine.messages import check_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

STEP_SAMPLES = 1280  # 80 ms, a token of Voxtral Realtime

# 24 s: less than the audio that a stream keeps for another connection, because no word of a piece
# without times is final before its end.
MAX_UNTIMED_STEPS = 300

_FULL_SCALE = 32_768.0
_WORDS = re.compile(r"\s*\S+")  # with the space before it

_MAX_SEARCH_STEPS = 750  # a minute in which a pause is searched, less where pieces are short
_SEARCH_SHARE = 4  # a quarter of the piece at most
_LOUDNESS_STEPS = 75  # 6 s, with which a pause is compared
_LOUDNESS_FRAMES = 8 * _LOUDNESS_STEPS
_MAX_PAUSE_FRAMES = 50  # half a second: long enough for the end of a sentence


def base64_pcm16(audio: NDArray[np.float32]) -> str:
    """Return float32[n] in [-1, 1] as base64 of little-endian int16; louder samples are clipped."""
    scaled = np.clip(np.rint(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return base64.b64encode(scaled.astype("<i2").tobytes()).decode("ascii")


def untimed_words(text: str, samples: int) -> list[Word]:
    """
    Return the words of *text*, divided evenly over a piece of so many samples.

    Raises:
        ServerMessageError: the text is far too long for them.

    """
    texts = _WORDS.findall(check_length(text, samples / SAMPLE_RATE))
    step = samples / SAMPLE_RATE / max(1, len(texts))
    return [Word(step * n, step * (n + 1), word) for n, word in enumerate(texts)]


class Rotation:
    """
    Find the pause in which a piece ends and the next one begins.

    The nearer the limit, the shorter a pause is enough; at the limit none is needed.  The decision
    depends on the audio alone, step by step, so that no cut of the audio changes it.
    """

    def __init__(self, max_steps: int | None) -> None:
        self._max_steps = max_steps
        self._search = min(_MAX_SEARCH_STEPS, (max_steps or 0) // _SEARCH_SHARE)
        self._steps = 0
        self._decibels: NDArray[np.float64] = np.zeros(0)

    def is_due(self, step: NDArray[np.float32]) -> bool:
        """Append the audio of a step; return whether the piece ends with it."""
        self._steps += 1
        if self._max_steps is None:
            return False
        left = self._max_steps - self._steps
        if left > self._search + _LOUDNESS_STEPS:
            return False
        self._decibels = np.concatenate((self._decibels, loudness(step)))[-_LOUDNESS_FRAMES:]
        if left > self._search:
            return False
        needed = -(-_MAX_PAUSE_FRAMES * max(0, left) // max(1, self._search))
        loud = loud_frames(self._decibels, background=background_level(self._decibels))
        quiet_frames = int(np.argmax(loud[::-1])) if loud.any() else len(loud)
        return quiet_frames >= needed


@attrs.frozen(kw_only=True, eq=False)
class Part:
    """Audio to send now, float32[n] with n >= 0, and whether a piece begins or ends with it."""

    audio: NDArray[np.float32]
    is_first: bool
    is_last: bool


class AudioPieces:
    """
    Send the pieces of a session one after another, and put their words on its clock.

    An utterance is a piece, or several where it is longer than *max_steps* steps of 80 ms.  Audio
    waits until the server has decoded the piece before it.
    """

    def __init__(self, max_steps: int | None) -> None:
        self._max_steps = max_steps
        self._rotation = Rotation(max_steps)
        self._held: deque[NDArray[np.float32]] = deque()  # steps
        self._begins_utterance = True
        self._is_ending = False  # the utterance ends after what is held
        self._is_open = False
        self._first_sample = 0  # of the piece, in the session
        self._words: list[Word] = []
        self._tail = ""  # the last word of the utterance
        self._is_first_word = True  # of the piece
        #: whether the end of a piece was taken, which the server has not yet decoded
        self.is_closed = False
        #: samples of the piece that were taken
        self.samples = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, neither audio nor the end of an utterance."""
        return not self._held and not self._is_ending

    def append(self, audio: NDArray[np.float32], *, is_last: bool) -> None:
        """Append audio in whole steps, but for the last one of an utterance."""
        if self._begins_utterance:
            self._tail = ""
        self._held += [audio[i : i + STEP_SAMPLES] for i in range(0, len(audio), STEP_SAMPLES)]
        self._begins_utterance = self._is_ending = is_last

    def parts(self) -> Iterator[Part]:
        """Yield what to send; nothing while the server decodes the piece before it."""
        while not self.is_closed and not self.is_idle:
            if not self._held and not self._is_open:
                self._is_ending = False  # an utterance without audio, or at the end of a piece
                return
            is_first, self._is_open = not self._is_open, True
            if is_first:
                self._rotation = Rotation(self._max_steps)
            steps: list[NDArray[np.float32]] = []
            while self._held and not self.is_closed:
                steps.append(self._held.popleft())
                self.is_closed = self._rotation.is_due(steps[-1])
            self.is_closed = self.is_closed or (self._is_ending and not self._held)
            audio = np.concatenate(steps) if steps else np.empty(0, np.float32)
            self.samples += len(audio)
            yield Part(audio=audio, is_first=is_first, is_last=self.is_closed)

    def finish(self) -> None:
        """Go on after a piece that the server has decoded."""
        self._is_open = self.is_closed = False
        self._is_ending = self._is_ending and bool(self._held)
        self._first_sample += self.samples
        self.samples = 0
        self._is_first_word = True

    def commit(self, words: Iterable[Word]) -> None:
        """Add final words, in seconds of the piece."""
        placed = self.placed(words)
        self._words += placed
        if placed:
            self._tail, self._is_first_word = placed[-1].text, False

    def placed(self, words: Iterable[Word]) -> tuple[Word, ...]:
        """Return *words* of the piece in seconds of the session, joined to those before."""
        shifted = [word.shifted(self._first_sample / SAMPLE_RATE) for word in words]
        if shifted and self._is_first_word and self._tail:
            shifted[0] = attrs.evolve(shifted[0], text=joined(self._tail, shifted[0].text))
        return tuple(shifted)

    def take_words(self) -> tuple[Word, ...]:
        """Return the final words since the last call, in seconds of the session."""
        words, self._words = tuple(self._words), []
        return words

    def processed(self, samples: int) -> int:
        """Return the sample of the session at *samples* of the piece."""
        return self._first_sample + min(samples, self.samples)
