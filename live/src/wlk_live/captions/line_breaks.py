"""Where a line of text may break and how wide it is, by the rules of the Unicode Standard."""

from __future__ import annotations

import unicodedata

from wlk_core.streaming import is_unspaced

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


def column_count(text: str) -> int:
    """Return the width of *text* in columns: wide characters take 2, combining marks 0."""
    visible = [letter for letter in text if unicodedata.category(letter) not in _NO_WIDTH]
    wide = [letter for letter in visible if unicodedata.east_asian_width(letter) in "WF"]
    return len(visible) + len(wide)


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
