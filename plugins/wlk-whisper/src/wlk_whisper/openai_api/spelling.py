"""Bare words combined with the text they come from, which has spaces and punctuation."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING
import unicodedata

import attrs

from wlk_core.streaming import needs_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SpelledWord", "divide_text", "with_leading_space"]

OPENING = frozenset("\"'“‘«¿¡")  # noqa: RUF001 -- marks before a word, beside categories Ps and Pi

# Pairs of equal letters in two texts that differ.  Two transcripts of 30 s have 30,000; two seconds
# on a busy processor are the most that the matcher takes for 50,000, and its time grows faster.
MAX_PAIRS = 50_000


@attrs.frozen
class SpelledWord:
    """
    A word as the text spells it.

    `index` is its index among the bare words, `position` that of its first letter in the text.
    """

    index: int
    position: int
    text: str


def divide_text(words: Sequence[str], text: str) -> tuple[SpelledWord, ...]:
    """
    Divide *text* among *words*, which have its letters without spaces or punctuation.

    The pieces joined are the text; there are no pieces where the text contains none of the words,
    or where both differ and are longer than 30 s of speech can be.
    Where words and text differ, a letter without a word goes to the word it is written together
    with, else to the previous word.  A word that the text does not contain is left out.
    """
    positions = [index for index, character in enumerate(text) if _is_letter(character)]
    letters_of_words = [
        (character, index)
        for index, word in enumerate(words)
        for letter in filter(_is_letter, word)
        for character in letter.casefold()
    ]
    owners = _find_owners(text, positions, letters_of_words)
    if not owners:
        return ()
    starts = [0]
    firsts = [0]
    for letter, (before, after) in enumerate(pairwise(owners), 1):
        if before != after:
            starts.append(_boundary(text, positions[letter - 1] + 1, positions[letter]))
            firsts.append(letter)
    ends = [*starts[1:], len(text)]
    return tuple(
        SpelledWord(owners[first], positions[first], text[start:end])
        for first, start, end in zip(firsts, starts, ends, strict=True)
    )


def with_leading_space(text: str) -> str:
    """
    Return *text*, stripped by an endpoint, as Whisper writes it after other text.

    That is with a leading space, unless its script takes none or it begins with closing
    punctuation.
    """
    text = text.strip()
    if not text:
        return text
    letter = next(filter(_is_letter, text), text[0])
    is_spaced = needs_space("a", letter) and (_opens(text[0]) or needs_space("a", text))
    return f" {text}" if is_spaced else text


def _find_owners(
    text: str, positions: Sequence[int], letters_of_words: Sequence[tuple[str, int]]
) -> list[int]:
    """Return for every letter of *text* the index of its word, never decreasing."""
    # A letter that folds to several ("ß") is several characters that refer to one letter.
    letters_of_text = [
        (character, letter)
        for letter, position in enumerate(positions)
        for character in text[position].casefold()
    ]
    owner_of_letter: dict[int, int] = {}
    for in_text, in_words, length in _matching_blocks(letters_of_text, letters_of_words):
        for step in range(length):
            letter = letters_of_text[in_text + step][1]
            owner_of_letter.setdefault(letter, letters_of_words[in_words + step][1])
    if not owner_of_letter:
        return []
    return _fill_gaps(text, positions, owner_of_letter)


def _matching_blocks(
    letters_of_text: Sequence[tuple[str, int]], letters_of_words: Sequence[tuple[str, int]]
) -> Iterable[tuple[int, int, int]]:
    in_text = [character for character, _ in letters_of_text]
    in_words = [character for character, _ in letters_of_words]
    if in_text == in_words:  # nearly always
        return [(0, 0, len(in_text))]
    counts = Counter(in_words)
    if sum(counts[letter] for letter in in_text) > MAX_PAIRS:
        return []
    return SequenceMatcher(None, in_text, in_words, autojunk=False).get_matching_blocks()


def _fill_gaps(text: str, positions: Sequence[int], owner_of_letter: dict[int, int]) -> list[int]:
    """Return the owners with an owner for every letter; see divide_text."""
    # Spaces before each position, so that every letter costs the same however long the gap is.
    spaces = [0, *accumulate(character.isspace() for character in text)]
    upcoming: list[int | None] = [None] * len(positions)  # the next letter that has an owner
    following: int | None = None
    for letter in reversed(range(len(positions))):
        following = letter if letter in owner_of_letter else following
        upcoming[letter] = following
    owners: list[int] = []
    for letter, later in enumerate(upcoming):
        if later == letter:
            owners.append(owner_of_letter[letter])
        elif later is not None and (
            not owners
            or (
                spaces[positions[letter]] == spaces[positions[later]]
                and spaces[positions[letter - 1]] != spaces[positions[letter]]
            )
        ):
            owners.append(owner_of_letter[later])
        else:
            owners.append(owners[-1])
    return owners


def _boundary(text: str, first: int, stop: int) -> int:
    """Return where the next word begins, between the last letter of one and its own first."""
    for index in range(first, stop):
        if text[index].isspace():
            return index
    start = stop
    while start > first and _opens(text[start - 1]):
        start -= 1
    return start


def _opens(character: str) -> bool:
    return character in OPENING or unicodedata.category(character) in ("Ps", "Pi")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
