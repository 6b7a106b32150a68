"""Combine the bare words of a response with its text, which has spaces and punctuation."""

from __future__ import annotations

from collections import Counter
from difflib import Match, SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
import unicodedata

from wlk_core.streaming import needs_space

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SpelledWord", "divide_text", "with_leading_space"]

OPENING = frozenset("\"'“‘«¿¡")  # noqa: RUF001 -- marks before a word, beside categories Ps and Pi

# Pairs of equal letters in two texts that differ.  Two transcripts of 30 s have 30,000; the matcher
# takes two seconds for 50,000 on a busy processor, and its time grows faster than their number.
MAX_PAIRS = 50_000


class SpelledWord(NamedTuple):
    """A word as the text spells it."""

    word: int  # its index among the bare words
    position: int  # of its first letter in the text
    text: str


def divide_text(words: Sequence[str], text: str) -> tuple[SpelledWord, ...]:
    """
    Divide *text* among *words*, which have its letters without spaces or punctuation.

    The pieces joined are the text; there are none where the text contains none of the words, or
    where both differ and are longer than 30 s of speech can be.
    Where words and text differ, a letter without a word goes to the word it is written together
    with, else to the previous word.  A word that the text does not contain is left out.
    """
    in_text, positions = _letters(text)
    in_words, indices = _letters(words)
    owners: dict[int, int] = {}  # positions of letters that are in a word, and its index
    counts = Counter(in_words)
    if in_text == in_words:  # nearly always
        blocks = [Match(0, 0, len(in_text))]
    elif sum(counts[letter] for letter in in_text) > MAX_PAIRS:
        return ()
    else:
        blocks = SequenceMatcher(None, in_text, in_words, autojunk=False).get_matching_blocks()
    for a, b, length in blocks:
        for step in range(length):
            owners.setdefault(positions[a + step], indices[b + step])
    if not owners:
        return ()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, index in owners.items():
        first.setdefault(index, position)
        last[index] = position
    inner = [_boundary(text, last[left] + 1, first[right]) for left, right in pairwise(first)]
    borders = pairwise([0, *inner, len(text)])
    return tuple(
        SpelledWord(index, position, text[start:end])
        for (index, position), (start, end) in zip(first.items(), borders, strict=True)
    )


def with_leading_space(text: str) -> str:
    """
    Return *text* as Whisper writes it after other text, although an endpoint stripped it.

    That is with a leading space, unless its script takes none or it begins with closing
    punctuation.
    """
    text = text.rstrip()
    if not text or text[0] == " ":
        return text
    letter = next(filter(_is_letter, text), text[0])
    is_spaced = needs_space("a", letter) and (_opens(text[0]) or needs_space("a", text))
    return f" {text}" if is_spaced else text


def _letters(units: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the letters of *units* without their case, and for each the index of its unit."""
    letters = [
        (character, index)
        for index, unit in enumerate(units)
        for letter in filter(_is_letter, unit)
        for character in letter.casefold()
    ]
    return [character for character, _ in letters], [index for _, index in letters]


def _boundary(text: str, start: int, stop: int) -> int:
    """Return where a word begins whose first letter is at *stop*, after another's last letter."""
    for index in reversed(range(start, stop)):
        if text[index].isspace():
            return index
    while stop > start and _opens(text[stop - 1]):
        stop -= 1
    return stop


def _opens(character: str) -> bool:
    return character in OPENING or unicodedata.category(character) in ("Ps", "Pi")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
