"""The audio of a session, divided into pieces that a server decodes by themselves."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_realtime.engine.rotation import STEP_SAMPLES, Rotation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AudioPieces", "Part"]


@attrs.frozen(kw_only=True, eq=False)
class Part:
    """
    Audio to send now.

    Attributes:
        audio: float32[n], n >= 0.
        is_first: whether a piece begins with it.
        is_last: whether the piece ends with it.

    """

    audio: NDArray[np.float32]
    is_first: bool
    is_last: bool


class AudioPieces:
    """
    Hold the audio that must wait until the server has decoded the piece before it.

    An utterance is a piece, or several where it is longer than *longest* steps of 80 ms.
    """

    def __init__(self, longest: int | None) -> None:
        self._longest = longest
        self._rotation = Rotation(longest)
        self._held: deque[NDArray[np.float32]] = deque()  # steps
        self._begins_utterance = True
        self._is_ending = False  # the utterance ends after what is held
        self._is_open = False
        self._is_closed = False

    @property
    def begins_utterance(self) -> bool:
        """Whether the next audio begins an utterance, not only a piece of a long one."""
        return self._begins_utterance

    @property
    def is_closed(self) -> bool:
        """Whether the end of a piece was taken, which the server has not yet decoded."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, neither audio nor the end of an utterance."""
        return not self._held and not self._is_ending

    def append(self, audio: NDArray[np.float32], *, is_last: bool) -> None:
        """Append audio in whole steps, but for the last one of an utterance."""
        self._held += [audio[i : i + STEP_SAMPLES] for i in range(0, len(audio), STEP_SAMPLES)]
        self._begins_utterance = self._is_ending = is_last

    def take(self) -> Part | None:
        """Return what to send, None while there is nothing or it has to wait."""
        if self._is_closed or self.is_idle:
            return None
        if not self._held and not self._is_open:
            self._is_ending = False  # an utterance without audio, or at the end of a piece
            return None
        is_first = not self._is_open
        if is_first:
            self._rotation = Rotation(self._longest)
        steps: list[NDArray[np.float32]] = []
        is_last = False
        while self._held and not is_last:
            steps.append(self._held.popleft())
            is_last = self._rotation.is_due(steps[-1])
        self._is_open = True
        self._is_closed = is_last or (self._is_ending and not self._held)
        audio = np.concatenate(steps) if steps else np.empty(0, np.float32)
        return Part(audio=audio, is_first=is_first, is_last=self._is_closed)

    def finish(self) -> None:
        """Go on after a piece that the server has decoded."""
        self._is_open = self._is_closed = False
        self._is_ending = self._is_ending and bool(self._held)
