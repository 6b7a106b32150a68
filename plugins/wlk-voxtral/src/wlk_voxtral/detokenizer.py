"""Words out of a stream that has one id for each step of audio and marks where words end."""

from __future__ import annotations

import codecs
import math
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from wlk_core.streaming.speculative import TokenPrediction

__all__ = ["StreamingDetokenizer", "TimedText", "Vocabulary"]

STEP_SECONDS = 0.08  # of audio for each id


class Vocabulary(Protocol):
    """What ids mean; see TekkenTokenizer."""

    @property
    def word_id(self) -> int:
        """The marker that stands where a word ends, in front of its text."""
        ...

    def piece(self, token: int) -> bytes:
        """Return the bytes of a text id, none for any other."""
        ...


@attrs.frozen
class TimedText:
    """The text behind one marker: usually a word, with its own spacing; `end` in seconds."""

    text: str
    end: float
    probability: float


class StreamingDetokenizer:
    """
    Put together what the ids of a run say, byte by byte.

    The id number *k* stands for the audio up to ``0.08 (k + 1)`` s, whatever the delay of the
    model.  A word ends at the time of its marker; text without a marker in front ends where the
    marker would have been.  What follows a marker is complete when something else than text comes.
    Bytes of an unfinished character and space without a word wait for what follows.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._count = 0  # ids so far
        self._end = 0.0  # of the text that is being said
        self._is_open = False  # a marker or text came, and nothing else since
        self._text = ""
        self._surprise = 0.0  # of its ids: the sum of -log of the probabilities
        self._ids = 0
        self.detokenised = 0  #: ids whose bytes were looked at and had some

    @property
    def time(self) -> float:
        """The end of the audio that the ids so far stand for, in seconds of the run."""
        return STEP_SECONDS * self._count

    @property
    def pending(self) -> TimedText | None:
        """The text that is being said, as far as its characters are complete."""
        return self._said() if self._text.strip() else None

    def push(self, choice: TokenPrediction) -> TimedText | None:
        """Take the next id; return the text that it completes, if any."""
        begin = self.time
        self._count += 1
        data = self._vocabulary.piece(choice.id)
        if data:
            if not self._is_open:
                self._is_open, self._end = True, begin
            self.detokenised += 1
            self._text += self._decoder.decode(data)
            self._surprise -= math.log(max(choice.probability, 1e-30))
            self._ids += 1
            return None
        complete = self._complete()
        self._is_open = choice.id == self._vocabulary.word_id
        if self._is_open:
            self._end = self.time
        return complete

    def finish(self) -> TimedText | None:
        """Return what is left at the end of a run."""
        return self._complete()

    def _complete(self) -> TimedText | None:
        self._is_open = False
        if not self._text.strip():
            return None  # a lone space belongs to the word that follows
        said = self._said()
        self._text, self._surprise, self._ids = "", 0.0, 0
        return said

    def _said(self) -> TimedText:
        return TimedText(self._text, self._end, math.exp(-self._surprise / max(self._ids, 1)))
