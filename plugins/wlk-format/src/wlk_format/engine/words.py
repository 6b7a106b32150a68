"""Words made of tokens, and text in place of some of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.plugins import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.plugins import ASRToken

_PARTS = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)
_NO_BRACKETS = re.compile(r"[^()]+")
_UNITS = re.compile(r"[%°€$£]+")  # punctuation that belongs to a number


@attrs.frozen
class Word:
    """
    A word of the tokens from `start` to `stop`.

    Its text is `head`, `core` and `tail`: space and opening punctuation, letters and digits with
    what is between them, and closing punctuation.
    """

    start: int
    stop: int
    head: str
    core: str
    tail: str
    is_whole: bool = True  #: whether no further token can belong to it

    @property
    def is_rest(self) -> bool:
        """Whether it seems to continue a word whose beginning is settled: "of" and "ten"."""
        return self.start == 0 and not self.head and self.core[:1].islower()

    @property
    def text(self) -> str:
        """The text without its leading space."""
        return (self.head + self.core + self.tail).strip()


@attrs.frozen
class Span:
    """Text in place of words[start:stop], without the punctuation around them."""

    start: int
    stop: int
    text: str
    has_plus: bool = False  #: whether a plus before the first word is replaced too


class Stage(Protocol):
    """Find words to replace.  What `joins` tells apart is replaced independently."""

    def joins(self, words: Sequence[Word], following: Word | None) -> bool:
        """
        Return whether one replacement may span the last of *words* and the *following* word.

        None stands for a word that is not known yet, and a word that is not `is_whole` may go on.
        """
        ...

    def spans(self, words: Sequence[Word]) -> list[Span]:
        """Return what to replace, in order."""
        ...


def words_of(tokens: Sequence[ASRToken], *, is_last: bool) -> list[Word]:
    """Return the words of *tokens*; a token without a leading space continues the word before."""
    starts = [at for at, token in enumerate(tokens) if at == 0 or token.text[:1].isspace()]
    words = []
    for start, stop in zip(starts, [*starts[1:], len(tokens)], strict=True):
        text = "".join(token.text for token in tokens[start:stop])
        match = _PARTS.fullmatch(text)
        head, core, tail = match.groups() if match else ("", text, "")
        if core[-1:].isdecimal() and (unit := _UNITS.match(tail)):
            core, tail = core + unit[0], tail[unit.end() :]
        is_whole = is_last or stop < len(tokens)
        words.append(Word(start, stop, head, core, tail, is_whole))
    return words


def replacement(words: Sequence[Word], span: Span) -> Replacement:
    """Return *span* as the host of text filters takes it, with the punctuation of its words."""
    first, last = words[span.start], words[span.stop - 1]
    # "am zwanzigsten." becomes "am 20.", with one full stop
    tail = last.tail[1:] if span.text.endswith(".") and last.tail[:1] == "." else last.tail
    head = first.head.replace("+", "") if span.has_plus else first.head
    # In "(212) 736-5000", the bracket closes inside the number, so both of its ends go.
    text = "".join(word.head + word.core + word.tail for word in words[span.start : span.stop])
    unpaired = _NO_BRACKETS.sub("", text[len(first.head) : len(text) - len(last.tail)])
    while "()" in unpaired:
        unpaired = unpaired.replace("()", "")
    head = head.replace("(", "", unpaired.count(")"))
    tail = tail.replace(")", "", unpaired.count("("))
    return Replacement(first.start, last.stop, head + span.text + tail)
