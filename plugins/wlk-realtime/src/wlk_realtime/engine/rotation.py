"""Where a long piece of audio ends, in a pause if there is any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.streaming import background_level, loud_frames, loudness

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["STEP_SAMPLES", "Rotation"]

STEP_SAMPLES = 1280  # 80 ms, a token of Voxtral Realtime

_SEARCH_STEPS = 750  # a minute in which a pause is searched, less where pieces are short
_SEARCH_SHARE = 4  # a quarter of the piece at most
_LOUDNESS_STEPS = 75  # 6 s, with which a pause is compared
_LOUDNESS_FRAMES = 8 * _LOUDNESS_STEPS
_LONGEST_PAUSE = 50  # frames, half a second: long enough for the end of a sentence


class Rotation:
    """
    Find the pause in which a piece ends and the next one begins.

    The nearer the limit, the shorter a pause is enough; at the limit none is needed.  The decision
    depends on the audio alone, step by step, so that no cut of the audio changes it.
    """

    def __init__(self, longest: int | None) -> None:
        self._longest = longest
        self._search = 0 if longest is None else min(_SEARCH_STEPS, longest // _SEARCH_SHARE)
        self._steps = 0
        self._decibels: NDArray[np.float64] = np.zeros(0)

    def is_due(self, step: NDArray[np.float32]) -> bool:
        """Append the audio of a step; return whether the piece ends with it."""
        self._steps += 1
        if self._longest is None:
            return False
        left = self._longest - self._steps
        if left > self._search + _LOUDNESS_STEPS:
            return False
        self._decibels = np.concatenate((self._decibels, loudness(step)))[-_LOUDNESS_FRAMES:]
        if left > self._search:
            return False
        needed = -(-_LONGEST_PAUSE * max(0, left) // max(1, self._search))
        return self._quiet_frames() >= needed

    def _quiet_frames(self) -> int:
        loud = loud_frames(self._decibels, background=background_level(self._decibels))
        return int(np.argmax(loud[::-1])) if loud.any() else len(loud)
