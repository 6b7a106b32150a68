"""Where a line of text may break and how wide it is, by the rules of the Unicode Standard."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
import unicodedata

import attrs

from wlk_core.streaming import is_unspaced
from wlk_frameworks.sentences import CLAUSE_ENDS, ends_sentence

# Line-breaking libraries need the whole text, but captions grow token by token.  Without a
# dictionary these libraries also find no breaks in Thai, Lao and Khmer.

_MARKS = ("Mn", "Mc", "Me")
_NO_WIDTH = (*_MARKS, "Cc", "Cf", "Zl", "Zp")  # marks, controls, joiners
_CLOSING = ("Po", "Pe", "Pf", "Pd", "Lm")  # Lm: repetition and length marks of kana and Thai
_OPENING = ("Ps", "Pi", "Sc")  # Sc: a currency sign precedes its amount
_VOWELS_AFTER = frozenset("ะาำๅฯະາຳ")  # Thai and Lao: follow their consonant
_VOWELS_BEFORE = frozenset("เแโใไເແໂໃໄ")  # precede it
_STACKING = frozenset("\u1039\u17d2")  # Myanmar and Khmer: the next consonant goes below this one
_JOINERS = frozenset("\u200d\u2060\ufeff")
_ZERO_WIDTH_SPACE = "\u200b"
_CLAUSE_COST = 2 * 0.25**2  # so two lines break after a clause up to a quarter from their middle


def column_count(text: str) -> int:
    """Return the width of *text* in columns: wide characters take 2, combining marks 0."""
    visible = [letter for letter in text if unicodedata.category(letter) not in _NO_WIDTH]
    wide = [letter for letter in visible if unicodedata.east_asian_width(letter) in "WF"]
    return len(visible) + len(wide)


@lru_cache(maxsize=4096)  # pairs of characters recur: a builder takes a fifth of the time
def _step(last: str, letter: str) -> tuple[int, bool]:
    """Return the columns of *letter*, and whether a line may break between it and *last*."""
    return column_count(letter), not letter.isspace() and may_divide(last, letter)


def may_divide(before: str, after: str) -> bool:
    """
    Return whether a line may break between *before* and *after*.

    It may at a space, or next to a character of a script without spaces, unless *after* binds to
    *before*.  A number is never divided.
    """
    if not before or not after or binds_to(before, after):
        return False
    last, first = before[-1], after[0]
    if last.isspace() or first.isspace() or _ZERO_WIDTH_SPACE in (last, first):
        return True
    if last.isdecimal() and first.isdecimal():
        return False
    return is_unspaced(last) or is_unspaced(first)


def binds_to(before: str, after: str) -> bool:
    """
    Return whether *after* must stay on the line of *before*.

    It must if it continues the last character of *before* or, with no space between them, if it
    begins with closing punctuation or *before* ends with an opening bracket.
    """
    if not before or not after:
        return False
    if continues_character(before, after):
        return True
    last, first = before[-1], after[0]
    if last.isspace() or first.isspace():
        return False
    return (
        unicodedata.category(first) in _CLOSING
        or unicodedata.category(last) in _OPENING
        or last in _VOWELS_BEFORE
        or first in _VOWELS_AFTER
        or (" LETTER SMALL " in unicodedata.name(first, "") and is_unspaced(first))
    )


def continues_character(before: str, after: str) -> bool:
    """Return whether *after* begins in the middle of a character (Unicode Annex 29)."""
    if not before or not after:
        return False
    last, first = before[-1], after[0]
    return (
        unicodedata.category(first) in _MARKS
        or (unicodedata.category(first) == "Cf" and first != _ZERO_WIDTH_SPACE)
        or "\U0001f3fb" <= first <= "\U0001f3ff"  # skin tones of emoji
        or last in _STACKING
        or last in _JOINERS
    )


def ends_clause(before: str, after: str) -> bool:
    """Return whether a clause or a sentence ends between *before* and *after*."""
    return before.rstrip().endswith(CLAUSE_ENDS) or bool(ends_sentence(before, after))


def ends_abbreviation(before: str) -> bool:
    """Return whether *before*, which does not end a sentence, ends with an abbreviation."""
    return before.rstrip().endswith(".")


def wrapped(text: str, width: int, *, indent: int = 0) -> list[str]:
    """
    Return *text* in the fewest lines of at most *width* columns.

    They are about equally long, and rather end with a clause.  The first has *indent* columns less,
    for what precedes the text.  Only a word that is wider than *width* makes a wider line.
    """
    text = " ".join(text.split())
    steps = [_step(last, letter) for last, letter in pairwise(f" {text}")]
    columns = list(accumulate((width for width, _ in steps), initial=0))
    places = [at for at, (_, may_break) in enumerate(steps) if at and may_break]
    # For each place the best division of the text before it: number of lines, cost, and where its
    # last line begins.  The sum of the squares of lengths is least for equal lines.
    best: dict[int, tuple[int, float, int]] = {0: (0, 0.0, 0)}
    for end in [*places, len(text)]:
        before, after = text[max(0, end - 2 * width) : end], text[end : end + width]
        penalty = 0.0 if not after or ends_clause(before, after) else _CLAUSE_COST * width**2
        penalty *= 2 if ends_abbreviation(before) else 1
        divisions: list[tuple[int, float, int]] = []
        for start in reversed(best):
            line = columns[end] - columns[start] - before.endswith(" ") + (0 if start else indent)
            if line > width and divisions:
                break
            count, cost, _ = best[start]
            divisions.append((count + 1, cost + line**2 + penalty, start))
        best[end] = min(divisions)
    lines, end = [], len(text)
    while end > 0:
        start = best[end][2]
        lines.append(text[start:end].rstrip())
        end = start
    return lines[::-1] or [""]


@attrs.frozen
class Lines:
    """How many lines of *width* columns a growing text fills."""

    width: int
    _columns: int = 0  # of the last line, up to the last place where it may break
    _word: int = 0  # columns after that place
    _last: str = " "  # the last character
    count: int = 1  #: lines so far; a word that is wider than a line counts as several

    def extended(self, text: str) -> Lines:
        """Return the lines with *text* appended."""
        columns, word, last, count = self._columns, self._word, self._last, self.count
        for letter in text:
            if letter.isspace() and last.isspace():
                continue
            width, may_break = _step(last, letter)
            if may_break:
                columns, word = columns + word, 0
            word += width
            if columns + word > self.width and not letter.isspace():
                count, columns, word = count + 1, 0, word if columns else word - self.width
            last = letter
        return Lines(self.width, columns, word, last, count)
