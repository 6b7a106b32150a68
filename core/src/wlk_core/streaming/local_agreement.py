"""
LocalAgreement: text is final when two consecutive hypotheses agree on it.

Liu, Spanakis and Niehues, "Low-latency sequence-to-sequence speech recognition and translation by
partial hypothesis selection" (Interspeech 2020); for Whisper: Machacek, Dabre and Bojar, "Turning
Whisper into real-time transcription system" (2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
import unicodedata

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.streaming.words import Word

__all__ = ["LocalAgreement", "is_continued", "split_overlap"]

BOUNDARY_SLACK = 0.35  # seconds a word may move between hypotheses: more than half a short one
LONG_WORD = 0.8  # seconds; the end of a longer word may lie in the pause after it


@attrs.define
class LocalAgreement:
    """
    The policy with n = 2: the longest common prefix of two hypotheses is committed.

    Words are compared by their letters, because a comma or capital that comes and goes must not
    delay a word.  Text and times are those of the newer hypothesis.  Its last word is not
    final as long as it may continue: where the audio ends inside a word, two hypotheses in a row
    may agree on a misrecognition of its first half.
    """

    hypothesis: tuple[Word, ...] = ()  #: what the last update did not commit

    def update(self, words: Sequence[Word], *, audio_end: float) -> tuple[Word, ...]:
        """
        Compare with the newest hypothesis, without its committed words; return the final words.

        The hypothesis is of audio up to *audio_end* seconds.
        """
        whole = words[:-1] if words and words[-1].may_continue(audio_end) else words
        agreed = 0
        for known, new in zip(self.hypothesis, whole, strict=False):
            if letters(known.text) != letters(new.text):
                break
            agreed += 1
        self.hypothesis = tuple(words[agreed:])
        return tuple(words[:agreed])

    def force(self, count: int) -> tuple[Word, ...]:
        """Commit the first *count* words of the hypothesis without waiting for agreement."""
        forced, self.hypothesis = self.hypothesis[:count], self.hypothesis[count:]
        return forced

    def flush(self) -> tuple[Word, ...]:
        """Commit the whole hypothesis: no more audio will change it."""
        return self.force(len(self.hypothesis))


def split_overlap(
    words: Sequence[Word], committed: Sequence[Word], committed_end: float
) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """
    Split a hypothesis into the words committed before and the new ones.

    The audio of the last commits is often still in the buffer, so a hypothesis begins with words
    that were committed before.  Text alone never removes a word, so words that a speaker repeats
    survive.

    Args:
        words: the hypothesis, in order, times in the same seconds as the rest.
        committed: the committed words whose audio the hypothesis was decoded from, in order.
        committed_end: the end of the last word committed so far.

    Returns:
        The old words and the new ones; together they are *words*.

    """
    last = committed[-1] if committed else None
    if last is not None:
        committed_end = min(committed_end, max(last.start + LONG_WORD, last.middle))
    # Time separates old words from new ones, whose middle does not lie before `committed_end`.
    cut = 0
    while cut < len(words) and words[cut].middle < committed_end:
        cut += 1
    # Times move a little from one hypothesis to the next, and an end may reach into the pause after
    # its word.  So the boundary moves by a word if a word next to it has the letters and about the
    # time of the last committed word; then that is the last old word.
    if last is not None:
        candidates = [
            (_distance(words[index - 1], last), index)
            for index in range(max(1, cut - 1), min(len(words), cut + 1) + 1)
            if letters(words[index - 1].text) == letters(last.text)
        ]
        distance, index = min(candidates, default=(BOUNDARY_SLACK, cut))
        cut = index if distance < BOUNDARY_SLACK else cut
    return tuple(words[:cut]), tuple(words[cut:])


def is_continued(committed: Word, newer: Word) -> bool:
    """
    Return whether *newer* is the word *committed* with a later end.

    If the audio ended within a word when it was committed, its end was not known yet.
    """
    is_same = letters(committed.text) == letters(newer.text)
    return is_same and newer.end > committed.end and _distance(newer, committed) < BOUNDARY_SLACK


def _distance(word: Word, other: Word) -> float:
    """Return the seconds between two words, by start or middle, whichever is less."""
    return min(abs(word.start - other.start), abs(word.middle - other.middle))


def letters(text: str) -> str:
    """Return the letters and digits of *text*, case folded; all of it if there are none."""
    stripped = text.strip()
    if stripped.isascii() and stripped.isalnum():  # as most words are
        return stripped.lower()
    kept = "".join(c for c in text if unicodedata.category(c)[0] in "LNM")
    return kept.casefold() or stripped
