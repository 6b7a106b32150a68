"""Assemble words from the tokens of a transducer and the encoder frames that emitted them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
import unicodedata

import attrs

from wlk_core.streaming import Word, is_unspaced

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAME_SECONDS = 0.08
# A word is final when the next one begins, or this many frames after its last token.  The tokens
# of a word follow each other within a few frames; a later one still joins the text without a space,
# but as a word of its own.
SETTLED_FRAMES = 3
LEAD_FRAMES = 12  # most frames by which a space precedes the start of its word
MIN_PROBABILITY = 1e-30  # its logarithm is finite


@attrs.frozen
class EmittedToken:
    """A token other than blank, and the encoder frame of the utterance that emitted it."""

    id: int
    frame: int
    probability: float


class WordAssembler:
    """
    Assemble the words of an utterance, token by token.

    Frame *k* stands for the 80 ms of audio that end at 0.08 k s, the newest in its mel frames;
    the look-ahead comes after them.  A word starts with the frame of its first token and ends with
    that of its last one.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._first = self._last = 0  # frames of the growing word
        self._surprise = 0.0  # sum of -log(probability) over its tokens
        self._tokens = 0

    @property
    def pending(self) -> Word | None:
        """The growing word; None for a lone space, which belongs to the word that follows."""
        if not self._text.strip():
            return None
        return Word(
            FRAME_SECONDS * max(0, self._first - 1),
            FRAME_SECONDS * self._last,
            self._text,
            math.exp(-self._surprise / self._tokens),
        )

    def push(self, token: EmittedToken) -> list[Word]:
        """Take the next token; return the word that it completes, if any."""
        piece = self._pieces[token.id]
        if not piece:
            return []
        complete = self.settle(token.frame)
        if self._begins_word(piece):
            complete += self.finish()
        if not self._text:
            self._first = token.frame
        elif not self._text.strip():
            self._first = max(self._first, token.frame - LEAD_FRAMES)
        self._text += piece
        self._last = token.frame
        self._surprise -= math.log(max(token.probability, MIN_PROBABILITY))
        self._tokens += 1
        return complete

    def settle(self, frame: int) -> list[Word]:
        """Return the growing word if none of its tokens is expected at *frame* or later."""
        is_settled = self.pending is not None and frame - self._last > SETTLED_FRAMES
        return self.finish() if is_settled else []

    def finish(self) -> list[Word]:
        """Complete the growing word and return it, if there is one."""
        word = self.pending
        self._text, self._surprise, self._tokens = "", 0.0, 0
        return [] if word is None else [word]

    def _begins_word(self, piece: str) -> bool:
        if piece[0] == " ":
            return True
        if not self._text or unicodedata.category(piece[0])[0] in "PM":
            return False
        return is_unspaced(piece[0]) or is_unspaced(self._text[-1])
