"""Words of servers that send text without times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_core.streaming import needs_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["UntimedWords"]

_PIECES = re.compile(r"\s*\S+|\s+")  # a word with the space before it


class UntimedWords:
    """
    Divide text into words, each between the audio that was sent when text came before and now.

    Such times are bounds for captions, and not times of words.
    """

    def __init__(self) -> None:
        self._samples = 0
        self._last = 0  # where the last words came
        self._text = ""

    @property
    def pending(self) -> tuple[Word, ...]:
        """No hypothesis: what was sent is not changed by such a server."""
        return ()

    def append(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] that was sent."""
        self._samples += len(audio)

    def push(self, text: str) -> list[Word]:
        """Take a text; return the words that are complete."""
        texts: list[str] = []
        for piece in _PIECES.findall(text):
            if piece[0].isspace() or not needs_space(self._text, "a"):
                texts.append(self._text)
                self._text = ""
            self._text += piece
        return self._timed(texts)

    def finish(self) -> list[Word]:
        """Return the word that is left."""
        text, self._text = self._text, ""
        return self._timed([text])

    def _timed(self, texts: list[str]) -> list[Word]:
        times = (self._last / SAMPLE_RATE, self._samples / SAMPLE_RATE)
        words = [Word(*times, text) for text in texts if text.strip()]
        if words:
            self._last = self._samples
        return words
