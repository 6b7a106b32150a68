"""Words of servers that send text without times."""

from __future__ import annotations

import re

from wlk_core.plugins import SAMPLE_RATE, Word

__all__ = ["LONGEST_PIECE_STEPS", "UntimedWords"]

# 24 s: less than the audio that a stream keeps for another connection, because no word of a piece
# is final before its end.
LONGEST_PIECE_STEPS = 300

_WORDS = re.compile(r"\s*\S+")  # with the space before it


class UntimedWords:
    """
    The text of a piece of audio, divided evenly over it.

    The order is that of the text, and all times lie in the audio of the piece; nothing more is
    known of them.
    """

    def __init__(self) -> None:
        self._text = ""

    def push(self, text: str) -> None:
        """Append *text*."""
        self._text += text

    def replace(self, text: str) -> None:
        """Take *text* for all that came, because it is what the server finally decoded."""
        self._text = text

    def over(self, samples: int) -> list[Word]:
        """Return the words, in seconds of a piece of so many samples."""
        texts = _WORDS.findall(self._text)
        step = samples / SAMPLE_RATE / max(1, len(texts))
        return [Word(step * n, step * (n + 1), text) for n, text in enumerate(texts)]
