"""
Which words of a hypothesis are final: LocalAgreement and AlignAtt.

LocalAgreement: text is final when two consecutive hypotheses agree on it.  Liu, Spanakis and
Niehues, "Low-latency sequence-to-sequence speech recognition and translation by partial hypothesis
selection" (Interspeech 2020); for Whisper: Machacek, Dabre and Bojar, "Turning Whisper into
real-time transcription system" (2023).

AlignAtt: a token is final unless the decoder attended to the end of the audio when it emitted it.
Papi, Turchi and Negri, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
Simultaneous Speech Translation" (Interspeech 2023); for Whisper: Wang et al., "Simul-Whisper:
Attention-Guided Streaming Whisper with Truncation Detection" (Interspeech 2024).  The test for
attention that jumps back is that of SimulStreaming (Machacek and Polak, 2025).
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING
import unicodedata

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.streaming.words import Word

__all__ = ["AlignAtt", "count_agreed", "is_continued", "split_overlap"]

BOUNDARY_SLACK = 0.35  # seconds a word may move between hypotheses: more than half a short one
LONG_WORD = 0.8  # seconds; the end of a longer word may lie in the pause after it


def count_agreed(before: Sequence[Word], words: Sequence[Word]) -> int:
    """
    Return how many of *words* are final: the longest common prefix of two hypotheses.

    Words are compared by their letters, because a comma or capital that comes and goes must not
    delay a word.

    Args:
        before: the hypothesis before, without the words committed since.
        words: the newest hypothesis, without its committed words and without a last word that
            later audio may continue.

    """
    pairs = zip(before, words, strict=False)
    return sum(takewhile(bool, (letters(old.text) == letters(new.text) for old, new in pairs)))


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


@attrs.frozen(kw_only=True)
class AlignAtt:
    """The policy: the attended frame of each token in, the number of final tokens out."""

    border_frames: int  #: a final token attends to none of the last frames of the audio
    rewind_frames: int  #: frames that attention may jump back; a longer jump is an error

    def count_final(
        self,
        frames_of_tokens: Sequence[int],
        *,
        frames: int,
        last_frame: int = 0,
    ) -> int:
        """
        Return how many tokens, from the first one on, are final.

        The first token that attends to the last `border_frames` frames may change with the next
        audio, and so may every token after it.  The same holds for the first token that attends
        more than `rewind_frames` before the farthest final one.

        Args:
            frames_of_tokens: for each token after the final tokens of earlier calls, the frame that
                the decoder attended to most.  Frames count from the start of the utterance, so
                that trimming a buffer changes none.
            frames: how many frames the utterance has so far.
            last_frame: the farthest frame that a final token of an earlier call attended to.

        """
        farthest = last_frame
        for count, frame in enumerate(frames_of_tokens):
            if frame >= frames - self.border_frames:
                return count
            if frame < farthest - self.rewind_frames:
                return count
            farthest = max(farthest, frame)
        return len(frames_of_tokens)
