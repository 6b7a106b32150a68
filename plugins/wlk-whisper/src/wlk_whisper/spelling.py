"""Bare words brought together with the text they come from: its spaces and its punctuation."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING
import unicodedata

import attrs

from wlk_core.streaming import needs_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Spelt", "spell", "with_leading_space"]

OPENING = frozenset("\"'“‘«¿¡")  # noqa: RUF001 -- quotes that stand before a word, beside Ps and Pi


@attrs.frozen
class Spelt:
    """
    A word as the text spells it.

    `index` is its place among the bare words, `position` that of its first letter in the text.
    """

    index: int
    position: int
    text: str


def spell(words: Sequence[str], text: str) -> tuple[Spelt, ...]:
    """
    Divide *text* among *words*, which give its letters without spaces or punctuation.

    The pieces joined are the text, unless no word is found in it: then there are none.  Where
    words and text do not agree letter by letter, text that no word gives goes to the word it is
    written together with, else to the one before it; a word that is not in the text is left out.
    """
    places = [place for place, character in enumerate(text) if _is_letter(character)]
    given = [
        (character, index)
        for index, word in enumerate(words)
        for letter in filter(_is_letter, word)
        for character in letter.casefold()
    ]
    owners = _owners(text, places, given)
    if not owners:
        return ()
    starts = [0]
    firsts = [0]
    for turn, (before, after) in enumerate(pairwise(owners), 1):
        if before != after:
            starts.append(_boundary(text, places[turn - 1] + 1, places[turn]))
            firsts.append(turn)
    ends = [*starts[1:], len(text)]
    return tuple(
        Spelt(owners[first], places[first], text[start:end])
        for first, start, end in zip(firsts, starts, ends, strict=True)
    )


def with_leading_space(text: str) -> str:
    """
    Return *text*, stripped by an endpoint, as Whisper writes it behind other text.

    That is with a space in front, unless its script takes none or it begins with punctuation
    that closes.
    """
    text = text.strip()
    if not text:
        return text
    letter = next(filter(_is_letter, text), text[0])
    is_spaced = needs_space("a", letter) and (_opens(text[0]) or needs_space("a", text))
    return f" {text}" if is_spaced else text


def _owners(text: str, places: Sequence[int], given: Sequence[tuple[str, int]]) -> list[int]:
    """Return for every letter of *text* the word it belongs to, never going back."""
    # Some letters fold to several ("ß"): each of them counts as one and points back.
    wanted = [(c, turn) for turn, place in enumerate(places) for c in text[place].casefold()]
    found: dict[int, int] = {}
    for first, mine, length in _common(wanted, given):
        for step in range(length):
            found.setdefault(wanted[first + step][1], given[mine + step][1])
    if not found:
        return []
    return _filled(text, places, found)


def _common(
    wanted: Sequence[tuple[str, int]], given: Sequence[tuple[str, int]]
) -> Iterable[tuple[int, int, int]]:
    one, other = [c for c, _ in wanted], [c for c, _ in given]
    if one == other:  # as it almost always is
        return [(0, 0, len(one))]
    return SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()


def _filled(text: str, places: Sequence[int], found: dict[int, int]) -> list[int]:
    """Return the owners with the gaps closed: see spell."""
    owners: list[int] = []
    for turn in range(len(places)):
        if turn in found:
            owners.append(found[turn])
            continue
        upcoming = next((later for later in range(turn, len(places)) if later in found), None)
        if upcoming is not None and (
            not owners
            or (
                _is_together(text, places[turn], places[upcoming])
                and not _is_together(text, places[turn - 1], places[turn])
            )
        ):
            owners.append(found[upcoming])
        else:
            owners.append(owners[-1])
    return owners


def _is_together(text: str, one: int, other: int) -> bool:
    """Tell whether no space stands between two places of *text*."""
    return not any(character.isspace() for character in text[one:other])


def _boundary(text: str, first: int, behind: int) -> int:
    """Return where the next word begins, between the last letter of one and its own first."""
    for place in range(first, behind):
        if text[place].isspace():
            return place
    place = behind
    while place > first and _opens(text[place - 1]):
        place -= 1
    return place


def _opens(character: str) -> bool:
    return character in OPENING or unicodedata.category(character) in ("Ps", "Pi")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
