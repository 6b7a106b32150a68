"""Timed words inside a stretch of audio, and how texts of different stretches are joined."""

from __future__ import annotations

import unicodedata

import attrs

__all__ = ["Word", "joined", "needs_space"]

# Scripts written without spaces between words (Unicode Standard Annex 14, class SA and ID).
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGZHOU", "BOPOMOFO", "YI ", "THAI", "LAO", "KHMER",
             "MYANMAR", "TIBETAN")  # fmt: skip


@attrs.frozen
class Word:
    """
    A word with its place in seconds from the start of its stretch of audio.

    `text` carries its own spacing.  `probability` is in [0, 1] or None.
    """

    start: float
    end: float
    text: str
    probability: float | None = None

    @property
    def middle(self) -> float:
        """The time halfway between start and end."""
        return (self.start + self.end) / 2

    def shifted(self, seconds: float) -> Word:
        """Return the same word *seconds* later."""
        return attrs.evolve(self, start=self.start + seconds, end=self.end + seconds)


def needs_space(before: str, after: str) -> bool:
    """
    Tell whether a space belongs between two texts that were decoded apart.

    Scripts written without spaces take none, nor does punctuation that closes; text that brings
    its own space needs no other.
    """
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return False
    if unicodedata.category(after[0]) in ("Po", "Pe", "Pf", "Mn", "Mc"):
        return False
    return not (_is_unspaced(before[-1]) or _is_unspaced(after[0]))


def joined(before: str, after: str) -> str:
    """Return *after* as it continues *before*: with a space in front where the script wants one."""
    if not before:
        return after.lstrip()
    return f" {after}" if needs_space(before, after) else after


def _is_unspaced(character: str) -> bool:
    name = unicodedata.name(character, "")
    return name.startswith(_UNSPACED) or name.startswith(("IDEOGRAPHIC", "FULLWIDTH"))
