"""Assemble words from token ids: one id per step, and a marker at the end of each word."""

from __future__ import annotations

import codecs
import copy
import math
from typing import TYPE_CHECKING

import attrs

from wlk_voxtral.tokenizer import STEP_SECONDS

if TYPE_CHECKING:
    from wlk_voxtral.speculative import TokenPrediction
    from wlk_voxtral.tokenizer import TekkenTokenizer

MIN_PROBABILITY = 1e-30  # its logarithm is finite


@attrs.frozen
class TimedText:
    """The text that follows a marker: usually a word, with its own spacing; `end` in seconds."""

    text: str
    end: float
    probability: float


class StreamingDetokenizer:
    """
    Assemble the text of an utterance from its token ids, byte by byte.

    Id number *k* stands for the audio up to ``0.08 (k + 1)`` s, whatever the delay of the model.  A
    word ends at the time of its marker; text without a marker ends where the marker would have
    been.  The text after a marker is complete when a control token follows it.  Bytes of an
    unfinished character, and a space without a word, are kept for the next text.
    """

    def __init__(self, tokenizer: TekkenTokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._count = 0  # ids so far
        self._end = 0.0  # end of the growing text, in seconds
        self._is_open = False  # the latest id was a marker or text
        self._text = ""
        self._surprise = 0.0  # sum of -log(probability) over the ids of the text
        self._ids = 0

    def copy(self) -> StreamingDetokenizer:
        """Return an independent copy."""
        other = copy.copy(self)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        decoder.setstate(self._decoder.getstate())
        other._decoder = decoder  # noqa: SLF001 -- an object of this class
        return other

    @property
    def time(self) -> float:
        """End of the audio that the ids so far stand for, in seconds of the utterance."""
        return STEP_SECONDS * self._count

    @property
    def pending(self) -> TimedText | None:
        """The growing text, up to its last complete character."""
        return self._timed_text() if self._text.strip() else None

    def push(self, prediction: TokenPrediction) -> TimedText | None:
        """Take the next id; return the text that it completes, if any."""
        start = self.time
        self._count += 1
        piece = self._tokenizer.piece(prediction.id)
        if piece:
            if not self._is_open:
                self._is_open, self._end = True, start
            self._text += self._decoder.decode(piece)
            self._surprise -= math.log(max(prediction.probability, MIN_PROBABILITY))
            self._ids += 1
            return None
        complete = self.finish()
        self._is_open = prediction.id == self._tokenizer.word_id
        if self._is_open:
            self._end = self.time
        return complete

    def finish(self) -> TimedText | None:
        """Complete the growing text and return it, if there is any."""
        self._is_open = False
        if not self._text.strip():
            return None  # a lone space belongs to the word that follows
        text = self._timed_text()
        self._text, self._surprise, self._ids = "", 0.0, 0
        return text

    def _timed_text(self) -> TimedText:
        return TimedText(self._text, self._end, math.exp(-self._surprise / max(self._ids, 1)))
