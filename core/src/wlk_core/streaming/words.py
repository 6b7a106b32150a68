"""Timed words, and how text that was decoded in parts is joined."""

from __future__ import annotations

import unicodedata

import attrs

from wlk_core._line_breaks import is_unspaced

__all__ = ["Word", "is_unspaced", "joined", "needs_space"]

CONTINUATION_SECONDS = 1.0  # in which the rest of a word would follow its first tokens
MISPLACED_SECONDS = 0.5  # beyond the audio: models that pad it may put its last word there


@attrs.frozen
class Word:
    """
    A word and its time, in seconds from the start of the audio it was decoded from.

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

    def is_outside(self, seconds: float) -> bool:
        """
        Return whether the word begins more than MISPLACED_SECONDS outside *seconds* of audio.

        Such a time is not merely inaccurate: it is not in seconds, or it counts from elsewhere.
        """
        return not -MISPLACED_SECONDS <= self.start <= seconds + MISPLACED_SECONDS

    def may_continue(self, audio_end: float) -> bool:
        """Return whether audio after *audio_end* may add to this word, the last of a hypothesis."""
        return audio_end - self.end < CONTINUATION_SECONDS

    def shifted(self, seconds: float) -> Word:
        """Return the same word *seconds* later."""
        return Word(self.start + seconds, self.end + seconds, self.text, self.probability)


def needs_space(before: str, after: str) -> bool:
    """
    Return whether a space belongs between two pieces of text that were decoded separately.

    Scripts written without spaces take no space, nor does closing punctuation.  Text that brings
    its own space needs no other.
    """
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return False
    if unicodedata.category(after[0]) in ("Po", "Pe", "Pf", "Mn", "Mc"):
        return False
    return not (is_unspaced(before[-1]) or is_unspaced(after[0]))


def joined(before: str, after: str) -> str:
    """Return *after* as it continues *before*: with a space in front where the script wants one."""
    if not before:
        return after.lstrip()
    return f" {after}" if needs_space(before, after) else after
