"""Divide committed tokens into clauses, the units of translation."""

from __future__ import annotations

from typing import TYPE_CHECKING
import unicodedata

import attrs

from wlk_frameworks.sentences import CLAUSE_ENDS, ends_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core.plugins import ASRToken

_CLOSING = "\"'”’»)]」』）】"  # noqa: RUF001 -- can follow a comma
_MIN_COLUMNS = 20  # before a comma ends a clause: "Yes," is translated better with what follows
_MAX_COLUMNS = 168  # two captions, after which text without punctuation is divided between words
_MAX_UNSPACED_COLUMNS = 336  # after which even a word is divided, or a script without spaces
_PAUSE_SECONDS = 0.8  # between two tokens, as for the end of a caption


@attrs.frozen
class Clause:
    """Tokens to translate together; after `ends_sentence`, the next clause begins a sentence."""

    tokens: tuple[ASRToken, ...]
    ends_sentence: bool

    @property
    def text(self) -> str:
        """The text, stripped, with single spaces."""
        return " ".join("".join(token.text for token in self.tokens).split())

    @property
    def start(self) -> float:
        """Stream time of the first token, in seconds."""
        return self.tokens[0].start

    @property
    def end(self) -> float:
        """Stream time at which the last token ends, in seconds."""
        return max(token.end for token in self.tokens)

    @property
    def language(self) -> str | None:
        """The detected language, which is the same for all tokens."""
        return self.tokens[0].detected_language


class ClauseSplitter:
    """
    Divide a stream of tokens into clauses, each as soon as it is complete.

    A clause ends at the end of a sentence; at a comma, semicolon, colon or dash after 20 columns or
    more; before a pause of 0.8 s, another speaker or another language; and at 168 columns, or 336
    in the middle of a word.  Every token is part of exactly one clause, however the tokens are
    divided among calls.
    """

    def __init__(self) -> None:
        self._open: list[ASRToken] = []
        self._text = ""

    def push(self, token: ASRToken) -> Iterator[Clause]:
        """Append a token; yield the clauses that it ends."""
        if self._open:
            last, text = self._open[-1], self._text
            language = token.detected_language
            is_pause = token.start - last.end >= _PAUSE_SECONDS
            is_end = ends_sentence(text, "" if is_pause else token.text, language=language)
            if (token.speaker, language) != (last.speaker, last.detected_language):
                yield from self.flush()
            elif is_end or is_pause or _is_too_long(text, token.text):
                yield self._close(ends_sentence=bool(is_end))
        self._open.append(token)
        self._text += token.text
        text = self._text.rstrip().rstrip(_CLOSING)
        if ends_sentence(self._text):
            yield self._close(ends_sentence=True)
        elif text.endswith(CLAUSE_ENDS) and _columns(text) >= _MIN_COLUMNS:
            yield self._close(ends_sentence=False)

    def flush(self) -> Iterator[Clause]:
        """Yield the open clause, if any, at the end of an utterance."""
        if self._open:
            yield self._close(ends_sentence=True)

    def _close(self, *, ends_sentence: bool) -> Clause:
        clause = Clause(tuple(self._open), ends_sentence)
        self._open, self._text = [], ""
        return clause


def _is_too_long(before: str, after: str) -> bool:
    """Return whether a clause ends between *before* and *after* because of its length."""
    if not after[:1].isspace():  # the word goes on
        return _columns(before) >= _MAX_UNSPACED_COLUMNS
    return _columns(before) >= _MAX_COLUMNS


def _columns(text: str) -> int:
    """Return the width of *text*; a wide character counts as two columns."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
