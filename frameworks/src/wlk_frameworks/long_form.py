"""Long-form transcription of recordings, with one engine call for each long window."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from wlk_core.online.recognizer import Step
from wlk_core.online.windowed import UtteranceRecognizer
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.audio_buffer import REMAINDER_SECONDS, SEARCH_SECONDS
from wlk_core.streaming.words import Word, last_words, words_in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.online.local_agreement import Transcriber

CUT_SHARE = 2 / 3  # of a window; the cut is at the widest pause after it
COMPLETE_SECONDS = 0.5  # of quiet after the last word of a window mean that it is complete
UNDECODED_SECONDS = 3.0  # without text at the end of an utterance; a gate leaves less silence
MIN_ADVANCE = round(0.2 * SAMPLE_RATE)  # per call, as with the smallest tick of a live policy


class LongFormRecognizer(UtteranceRecognizer[Word]):
    """
    Transcribe an utterance in windows of `max_seconds`, each with one engine call.

    This is Whisper's rule for recordings (Radford et al., "Robust speech recognition via
    large-scale weak supervision", 2022, section 3.8), with pauses between words in place of its
    timestamp tokens.  A window is cut at its last wide pause; the words before the cut are final
    and become the prompt of the next window, which begins there.  Text comes up to `max_seconds`
    late, so live audio needs another policy.
    """

    def __init__(
        self,
        transcribe: Transcriber,
        *,
        language: str | None = None,
        prompt: str = "",
        max_seconds: float = 28.0,
    ) -> None:
        self._transcribe = transcribe
        self._max_samples = round(max_seconds * SAMPLE_RATE)
        super().__init__(language=language, prompt=prompt)

    def step(self, *, is_last: bool) -> Step | None:
        """Transcribe a full window, or the rest of a complete utterance."""
        audio = self._audio
        # A window that is exactly full waits: if the utterance ends there, it is the last one.
        is_full = len(audio) > self._max_samples
        if not is_full and not (is_last and len(audio)):
            return None
        end_sample = min(audio.end, audio.start + self._max_samples)
        window = audio.view(audio.start, end_sample)
        start, end = audio.start / SAMPLE_RATE, end_sample / SAMPLE_RATE
        answer, language = self._language.decode(
            partial(self._transcribe, window),
            self._prompt.strip(),
            speech_seconds=lambda answer: end - start - answer.words[0].start,
            is_last=True,  # the language of a window is final
        )
        # Nothing has changed so far, so that a failed step can be repeated.
        shifted = [word.shifted(start) for word in answer.words]
        words = words_in_order(shifted, floor=start, limit=end)
        words = [word for word in words if word.middle >= self._overlap_end]
        has_rest = bool(words) and end - words[-1].end >= UNDECODED_SECONDS
        count, cut = (
            self._cut(words, end_sample) if is_full or has_rest else (len(words), end_sample)
        )
        committed = tuple(words[:count])
        self.work += answer.work
        self.hypothesis = tuple(words[count:])
        kept_prompt = "" if language.is_change(self._language) else self._prompt
        self._prompt = last_words(kept_prompt + "".join(word.text for word in committed))
        audio.trim(cut)
        self._language = language.committed(answer.language) if committed else language
        outside = sum(word.is_outside(end - start) for word in answer.words)
        return Step(committed=committed, consumed_samples=end_sample, misplaced_words=outside)

    def _cut(self, words: Sequence[Word], end_sample: int) -> tuple[int, int]:
        """Return how many of *words* are final, and the first sample of the next window."""
        # The cut is in the widest pause of the last part of the window.  Audio after the last word
        # is decoded again, because an engine that ended its text early has not decoded it; so is
        # the end of audio without words, because a word may begin there.
        earliest = (self._audio.start * (1 - CUT_SHARE) + end_sample * CUT_SHARE) / SAMPLE_RATE
        if not words:
            return 0, self._audio.quietest_sample(earliest, end_sample / SAMPLE_RATE)
        pauses = [
            (after.start - before.end, count)
            for count, (before, after) in enumerate(pairwise(words), 1)
            if after.start >= earliest
        ]
        last_pause = end_sample / SAMPLE_RATE - words[-1].end
        if last_pause >= COMPLETE_SECONDS:
            pauses.append((last_pause, len(words)))
        if not pauses and len(words) == 1:
            start = words[0].start
            if start < earliest:
                return 1, end_sample
            # The end of the window may cut the word, so the next window begins before the word.
            begin = start - 1.5 * SEARCH_SECONDS
            return 0, self._audio.quietest_sample(begin, start - SEARCH_SECONDS / 2)
        # A word longer than the last part is an alignment error, and the cut is before it.
        _, count = max(pauses, default=(0.0, len(words) - 1))
        last, upcoming = words[count - 1], words[count:]
        following = upcoming[0].start if upcoming else last.end + SEARCH_SECONDS
        begin = max(last.middle, min(last.end, following) - SEARCH_SECONDS)
        cut = self._audio.quietest_sample(begin, following - SEARCH_SECONDS / 2)
        cut = min(end_sample, max(cut, self._audio.start + MIN_ADVANCE))
        # The cut may lie in the last word, whose remainder is not a word.  The boundary lies
        # between the middle of the remainder and the middle of the next word.
        remainder = (cut / SAMPLE_RATE + max(cut / SAMPLE_RATE, last.end)) / 2
        self._overlap_end = remainder
        if upcoming:
            between = (remainder + upcoming[0].middle) / 2
            self._overlap_end = min(remainder + REMAINDER_SECONDS, between)
        return count, cut
