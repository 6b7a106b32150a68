"""Timed words, and joining text that was decoded in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
import unicodedata

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

PROMPT_CHARACTERS = 200  # of committed text given to the engine as prompt (whisper_streaming)
CONTINUATION_SECONDS = 1.0  # within which the rest of a word would follow its first tokens
MISPLACED_SECONDS = 0.5  # outside the audio: models that pad it may put its last word there

# Scripts written without spaces between words (Unicode Standard Annex 14, classes SA and ID).
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGZHOU", "BOPOMOFO", "YI ", "THAI", "LAO", "KHMER",
             "MYANMAR", "TIBETAN", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH KATAKANA")  # fmt: skip

W = TypeVar("W", bound="Word")


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
        """Return whether the word begins more than MISPLACED_SECONDS outside *seconds* of audio."""
        # Such a time is not merely inaccurate: it is not in seconds, or it counts from elsewhere.
        return not -MISPLACED_SECONDS <= self.start <= seconds + MISPLACED_SECONDS

    def shifted(self, seconds: float) -> Word:
        """Return the same word *seconds* later."""
        return Word(self.start + seconds, self.end + seconds, self.text, self.probability)


@attrs.frozen
class AlignedWord(Word):
    """
    A whole word and, for each of its tokens, the encoder frame by which AlignAtt decides.

    That is the frame that the decoder attended to most, or the one where the token ends; a word has
    at least one.  Frames count from the start of the audio given to the decoder, as times do.
    `tokens` are the decoder's own, so that it can be forced to begin with this word again.
    """

    frames: tuple[int, ...] = attrs.field(kw_only=True)
    tokens: tuple[Hashable, ...] = attrs.field(default=(), kw_only=True)

    def shifted(self, seconds: float, frames: int = 0) -> AlignedWord:
        """Return the same word, later by *seconds* and *frames*."""
        start, end = self.start + seconds, self.end + seconds
        later = tuple(frame + frames for frame in self.frames)
        return AlignedWord(
            start, end, self.text, self.probability, frames=later, tokens=self.tokens
        )


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
    """Return *after* as it continues *before*: with a space in front if the script wants one."""
    if not before:
        return after.lstrip()
    return f" {after}" if needs_space(before, after) else after


def words_in_order(words: Sequence[W], *, floor: float, limit: float) -> list[W]:
    """Return *words* with starts that never go back and all times between *floor* and *limit*."""
    ordered: list[W] = []
    for word in words:
        start = min(max(floor, word.start), limit)
        end = min(max(start, word.end), limit)
        is_same = start == word.start and end == word.end  # true of most words
        ordered.append(word if is_same else attrs.evolve(word, start=start, end=end))
        floor = start
    return ordered


def last_words(text: str) -> str:
    """Return the end of *text*, at most PROMPT_CHARACTERS of whole words."""
    if len(text) <= PROMPT_CHARACTERS:
        return text
    tail = text[-PROMPT_CHARACTERS:]
    return tail[tail.find(" ") :] if " " in tail else tail


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script that is written without spaces."""
    return unicodedata.name(character, "").startswith(_UNSPACED)
