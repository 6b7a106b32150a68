"""Continue a stream over one connection: convert clocks, drop words that came before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import SAMPLE_RATE
from wlk_core.streaming import joined
from wlk_realtime.engine.requests import ServerProgress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.plugins import Word
    from wlk_realtime.engine.requests import Decoded, Dialect, Request

_NO_UTTERANCE = -1
_SAME_TIME = 1e-3  # seconds, below which two times are considered equal


class RemoteStream:
    """
    Turn requests into the messages of one connection, and its messages into answers.

    The first request over a connection can begin in the middle of an utterance, whose earlier words
    the stream got over a previous connection.  The server then decodes some audio again, and words
    are dropped that lie before the end of the last word that the stream already has.
    """

    def __init__(self, dialect: Dialect, *, number: int) -> None:
        self._dialect = dialect
        self._number = number
        self._utterance = _NO_UTTERANCE
        self._total_samples = 0  # sent over this connection
        self._offset = 0  # samples from the start of the session to that of the utterance
        self._sent = 0  # samples of the utterance
        self._is_flushed = False
        self._words: list[Word] = []  # which the stream has yet to confirm
        self._confirmed = 0  # words before them
        self._tail: tuple[Word, ...] = ()  # last words of the previous connection
        self._is_first_word = True

    @property
    def is_answered(self) -> bool:
        """Whether the last request was answered."""
        return self._dialect.is_answered

    def fits(self, request: Request) -> bool:
        """Return whether *request* continues or repeats what was sent over this connection."""
        if self._utterance == _NO_UTTERANCE:
            return True
        if request.utterance != self._utterance:
            return self._is_flushed and request.first_sample == 0
        if self._is_flushed:
            return request.is_last and request.end_sample == self._sent
        return request.first_sample <= self._sent <= request.end_sample

    def send(self, request: Request) -> list[str]:
        """Return the messages of *request*; none if it repeats the last one."""
        if request.utterance != self._utterance:
            self._begin(request)
        if request.end_sample <= self._sent and (self._is_flushed or not request.is_last):
            return []
        audio = request.audio(self._sent, request.end_sample)
        messages = self._dialect.send(audio, is_last=request.is_last)
        self._total_samples += len(audio)
        self._sent = request.end_sample
        self._is_flushed = request.is_last
        return messages

    def answer(self, request: Request) -> Decoded:
        """Return the answer to the last *request*, on the clock of its utterance."""
        decoded = self._dialect.take()
        self._words += self._new_words(self._shifted(decoded.words))
        # After a failed call, the same request comes again with the same progress, so words are
        # kept until a later request confirms that the stream has them.
        progress = request.progress
        confirmed = progress.words if progress.connection == self._number else 0
        self._words = self._words[confirmed - self._confirmed :]
        self._confirmed = confirmed
        processed = max(0, decoded.processed_samples - self._offset)
        return attrs.evolve(
            decoded,
            words=tuple(self._words),
            hypothesis=self._after_tail(self._shifted(decoded.hypothesis)),
            processed_samples=min(processed, self._sent),
            progress=ServerProgress(self._number, confirmed + len(self._words)),
        )

    def _begin(self, request: Request) -> None:
        is_first = self._utterance == _NO_UTTERANCE
        self._utterance = request.utterance
        self._offset = self._total_samples - request.first_sample
        self._sent = request.first_sample
        self._is_flushed = False
        self._tail = request.tail if is_first else ()

    def _shifted(self, words: Iterable[Word]) -> list[Word]:
        seconds = self._offset / SAMPLE_RATE
        return [word.shifted(-seconds) for word in words]

    def _new_words(self, words: list[Word]) -> list[Word]:
        """Return the words that the stream lacks; the first of a session gets its space back."""
        later = list(self._after_tail(words))
        if self._is_first_word and later and self._tail and later[0] is words[0]:
            text = joined(self._tail[-1].text, later[0].text)
            later[0] = attrs.evolve(later[0], text=text)
        self._is_first_word = self._is_first_word and not words
        return later

    def _after_tail(self, words: list[Word]) -> tuple[Word, ...]:
        if not self._tail:
            return tuple(words)
        end = self._tail[-1].end
        return tuple(word for word in words if word.middle >= end and not self._is_in_tail(word))

    def _is_in_tail(self, word: Word) -> bool:
        return any(
            word.text.strip() == other.text.strip()
            and abs(word.start - other.start) < _SAME_TIME
            and abs(word.end - other.end) < _SAME_TIME
            for other in self._tail
        )
