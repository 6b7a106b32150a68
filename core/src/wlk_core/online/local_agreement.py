"""
LocalAgreement over any engine that turns audio into timed words.

Text is final when two consecutive hypotheses agree on it.  Liu, Spanakis and Niehues, "Low-latency
sequence-to-sequence speech recognition and translation by partial hypothesis selection"
(Interspeech 2020); for Whisper: Machacek, Dabre and Bojar, "Turning Whisper into real-time
transcription system" (2023).
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol
import unicodedata

import attrs

from wlk_core.online.windowed import WindowedRecognizer
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.words import Word, words_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.online.recognizer import Hypothesis


BOUNDARY_SLACK = 0.35  # seconds a word may move between hypotheses: over half of a short word
NO_ROOM_SECONDS = 0.05  # the longest that an alignment makes a word without audio of its own
LONG_WORD = 0.8  # seconds; the end of a longer word may lie in the pause after it


class Transcriber(Protocol):
    """An engine call: audio in, timed words out; all that LocalAgreement needs of a backend."""

    def __call__(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        """
        Transcribe float32[n], n > 0 at 16 kHz, on its own.

        Args:
            audio: read-only, valid during the call.
            prompt: the text before the audio, possibly ""; at most PROMPT_CHARACTERS long.
            language: a code, or None to detect it.

        Raises:
            Exception: whatever the engine raises; the stream wraps it and can repeat the call.

        """
        ...


class LocalAgreementRecognizer(WindowedRecognizer[Word, Transcriber]):
    """
    Re-transcribe a growing window every `tick_seconds` and commit what two hypotheses agree on.

    A window longer than `buffer_seconds` is cut after a committed word that is followed by at least
    `kept_seconds` of audio.  The engine never gets more than `max_seconds` of audio.
    """

    _prefix_is_forced = False

    def _engine_call(self, end_sample: int, *, is_last: bool) -> Callable[..., Hypothesis]:
        del is_last  # the engine transcribes every window alike
        return partial(self._decode, self._audio.view(self._audio.start, end_sample))

    def _new_words(self, words: Sequence[Word], end_sample: int) -> tuple[Word, ...]:
        start, end = self._audio.start / SAMPLE_RATE, end_sample / SAMPLE_RATE
        ordered = words_in_order([word.shifted(start) for word in words], floor=start, limit=end)
        old, fresh = split_overlap(ordered, self._prefix, self._overlap_end)
        if self._prefix and old and is_continued(self._prefix[-1], old[-1]):
            # The audio ended within the word when it was committed.
            last = attrs.evolve(self._prefix[-1], end=old[-1].end)
            self._prefix = (*self._prefix[:-1], last)
            self._overlap_end = max(self._overlap_end, self._commit_boundary(last))
        return without_fillers(fresh, self._last_word, limit=end)

    def _count_final(self, words: Sequence[Word], end_sample: int) -> int:
        del end_sample
        return count_agreed(self.hypothesis, words)


def count_agreed(before: Sequence[Word], words: Sequence[Word]) -> int:
    """Return how many of *words* are final: the longest common prefix of two hypotheses."""
    # Only letters are compared: a comma or capital that comes and goes must not delay a word.
    pairs = zip(before, words, strict=False)
    return sum(takewhile(bool, (letters(old.text) == letters(new.text) for old, new in pairs)))


def split_overlap(
    words: Sequence[Word], committed: Sequence[Word], committed_end: float
) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """
    Split a hypothesis into the words committed before and the new ones.

    *committed* are the committed words in the audio it was decoded from; *committed_end* is where
    the last committed word ends.
    """
    # The audio of the last commits is often still in the window.  Text alone never removes a word,
    # so words that a speaker repeats survive.
    last = committed[-1] if committed else None
    if last is not None:
        committed_end = min(committed_end, max(last.start + LONG_WORD, last.middle))
    # Time separates old words from new: the middle of a new one is not before `committed_end`.
    middles = enumerate(word.middle for word in words)
    cut = next((index for index, middle in middles if middle >= committed_end), len(words))
    # Times move a little from one hypothesis to the next, and an end may reach into the pause after
    # its word.  So the boundary moves by one word if a word next to it has the letters and roughly
    # the time of the last committed word, which makes it the last old word.
    if last is not None:
        candidates = [
            (_distance(words[index - 1], last), index)
            for index in range(max(1, cut - 1), min(len(words), cut + 1) + 1)
            if letters(words[index - 1].text) == letters(last.text)
        ]
        distance, index = min(candidates, default=(BOUNDARY_SLACK, cut))
        cut = index if distance < BOUNDARY_SLACK else cut
    return tuple(words[:cut]), tuple(words[cut:])


def without_fillers(
    words: Sequence[Word], before: Word | None, *, limit: float
) -> tuple[Word, ...]:
    """Return *words*, which follow *before*, without repetitions that only fill a pause."""
    # Engines repeat a word in the pause after it.  The repetition aligns to almost no audio, unlike
    # a word that the speaker repeats.  Near the limit of the audio, and from an engine that reports
    # no ends of words, a short duration says nothing.
    kept: list[Word] = []
    for word in words:
        is_filler = (
            before is not None
            and letters(word.text) == letters(before.text)
            and word.end - word.start <= NO_ROOM_SECONDS < before.end - before.start
            and word.end < limit - BOUNDARY_SLACK
        )
        if not is_filler:
            kept.append(word)
            before = word
    return tuple(kept)


def is_continued(committed: Word, newer: Word) -> bool:
    """Return whether *newer* is the word *committed* with a later end."""
    is_same = letters(committed.text) == letters(newer.text)
    return is_same and newer.end > committed.end and _distance(newer, committed) < BOUNDARY_SLACK


def _distance(word: Word, other: Word) -> float:
    return min(abs(word.start - other.start), abs(word.middle - other.middle))


def letters(text: str) -> str:
    """Return the letters and digits of *text*, case folded; all of it if there are none."""
    stripped = text.strip()
    if stripped.isascii() and stripped.isalnum():  # true of most words
        return stripped.lower()
    kept = "".join(c for c in text if unicodedata.category(c)[0] in "LNM")
    return kept.casefold() or stripped
