"""LocalAgreement over any engine that turns a stretch of audio into timed words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.recognizer import Step
from wlk_core.online.trimming import (
    PROMPT_CHARACTERS,
    QUIET_SECONDS,
    cut_between,
    forced_cut,
    last_words,
)
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.audio_buffer import AudioBuffer
from wlk_core.streaming.local_agreement import LocalAgreement, split_overlap

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.words import Word

__all__ = ["Hypothesis", "LocalAgreementRecognizer", "Transcriber"]

REMAINDER_SECONDS = 0.15  # of a committed word, at most, behind a cut; half the shortest word


@attrs.frozen(kw_only=True)
class Hypothesis:
    """What an engine heard in a stretch of audio: words in seconds from its start."""

    words: tuple[Word, ...] = ()
    language: str | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)


class Transcriber(Protocol):
    """An engine call: audio in, timed words out; the whole of a LocalAgreement backend."""

    def __call__(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        """
        Transcribe float32[n], n > 0 at 16 kHz, on its own.

        Args:
            audio: read-only, valid during the call.
            prompt: the text before the audio, "" for none; at most PROMPT_CHARACTERS long.
            language: a code, or None to detect it.

        Raises:
            Exception: whatever the engine raises; the stream wraps it and can repeat the call.

        """
        ...


class LocalAgreementRecognizer:
    """
    Re-transcribe a growing buffer every `tick_seconds` and commit what two hypotheses agree on.

    The buffer is cut only behind committed words, at the quietest place next to a word boundary,
    once it is longer than `buffer_seconds`.  Stretches in which two hypotheses in a row hear
    nothing new are let go but for their last QUIET_SECONDS.  If a buffer reaches `max_seconds`
    without agreement, the words of the newest hypothesis in its older half are committed as they
    are: they have been transcribed many times over, and the engine's window is finite.
    """

    def __init__(
        self,
        transcribe: Transcriber,
        *,
        language: str | None = None,
        prompt: str = "",
        tick_seconds: float = 1.0,
        buffer_seconds: float = 12.0,
        max_seconds: float = 28.0,
    ) -> None:
        self._transcribe = transcribe
        self._language = language
        self._work = WorkCounters()
        self._tick = max(1, round(tick_seconds * SAMPLE_RATE))
        self._buffer_samples = round(buffer_seconds * SAMPLE_RATE)
        self._max_samples = round(max_seconds * SAMPLE_RATE)
        self._initial_prompt = prompt
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words heard and not yet agreed on, in seconds of the run."""
        return self._policy.hypothesis

    @property
    def language(self) -> str | None:
        """The language forced, or detected by the time text was first committed."""
        return self._language

    @property
    def work(self) -> WorkCounters:
        """The engine's work, added up."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and text held, the prompt at its bound."""
        words = (*self._context, *self._policy.hypothesis)
        return self._buffer.nbytes + PROMPT_CHARACTERS + sum(len(word.text) for word in words)

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the buffer."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Transcribe up to the next point of the grid, or to the end of a complete run."""
        target = self._heard - self._heard % self._tick + self._tick
        if target <= self._buffer.end:
            return self._transcribe_to(target, is_final=False)
        if not is_last:
            return None
        if self._heard < self._buffer.end:
            return self._transcribe_to(self._buffer.end, is_final=True)
        if not self._policy.hypothesis:
            return None
        self._language = self._language or self._heard_language
        return Step(committed=self._policy.flush(), consumed_samples=self._heard)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new run with the end of the transcript as prompt."""
        self._buffer = AudioBuffer()
        self._policy = LocalAgreement()
        self._context: tuple[Word, ...] = ()  # committed words whose audio is in the buffer
        self._committed_end = 0.0
        self._heard = 0  # sample number up to which the engine has heard the run
        self._heard_language: str | None = None  # in the newest hypothesis
        self._was_quiet = False  # the last hypothesis held no new word
        self._before = last_words(committed_text or self._initial_prompt)

    def close(self) -> None:
        """Let go of audio and text."""
        self.end_utterance("")

    def _transcribe_to(self, target: int, *, is_final: bool) -> Step:
        # Nothing is changed before the engine has answered, so that a failed step can be repeated.
        start = self._buffer.start
        heard = self._transcribe(
            self._buffer.view(start, target), prompt=self._before.strip(), language=self._language
        )
        self._work += heard.work
        self._heard = target
        words = _in_order(heard.words, start / SAMPLE_RATE, target / SAMPLE_RATE)
        _, fresh = split_overlap(words, self._context, self._committed_end)
        committed = self._policy.update(fresh)
        if is_final:
            committed += self._policy.flush()
        self._remember(committed)
        self._heard_language = heard.language
        committed += self._bound(is_quiet=not fresh)
        if committed:
            self._language = self._language or heard.language
        return Step(committed=committed, consumed_samples=target)

    def _remember(self, committed: tuple[Word, ...]) -> None:
        if committed:
            self._context += committed
            self._committed_end = max(self._committed_end, committed[-1].end)

    def _bound(self, *, is_quiet: bool) -> tuple[Word, ...]:
        """Keep the buffer short; return words that had to be committed for it."""
        was_quiet, self._was_quiet = self._was_quiet, is_quiet
        if is_quiet and was_quiet:
            self._trim(self._heard - round(QUIET_SECONDS * SAMPLE_RATE))
            return ()
        if self._heard - self._buffer.start > self._buffer_samples and self._context:
            self._trim(self._cut_behind_context())
        if self._heard - self._buffer.start <= self._max_samples - self._tick:
            return ()
        half = (self._buffer.start + self._heard) / 2 / SAMPLE_RATE
        count = sum(word.end <= half for word in self._policy.hypothesis)
        forced = self._policy.force(count)
        self._remember(forced)
        # Between the words that are committed now and the next one, nothing has been heard.
        upcoming = self._policy.hypothesis
        following = upcoming[0].start if upcoming else half
        cut = self._cut_behind_context() if self._context else 0
        most = self._max_samples - self._tick
        forced_to = forced_cut(self._buffer.start, self._heard, following, most=most)
        self._trim(max(cut, forced_to))
        return forced

    def _cut_behind_context(self) -> int:
        """Return the quietest sample between the last committed word and what follows it."""
        upcoming = self._policy.hypothesis
        following = upcoming[0].start if upcoming else self._heard / SAMPLE_RATE
        return cut_between(self._buffer, self._context[-1], following, heard=self._heard)

    def _trim(self, sample: int) -> None:
        sample = max(self._buffer.start, sample)
        self._buffer.trim(sample)
        seconds = sample / SAMPLE_RATE
        gone = [word for word in self._context if word.middle < seconds]
        if gone:
            # What is left of the last word behind the cut is shorter than any word.
            self._committed_end = min(self._committed_end, seconds + REMAINDER_SECONDS)
        self._context = self._context[len(gone) :]
        self._before = last_words(self._before + "".join(word.text for word in gone))


def _in_order(words: Sequence[Word], offset: float, limit: float) -> list[Word]:
    """Return *words* moved by *offset* with starts that never go back and ends within *limit*."""
    ordered: list[Word] = []
    floor = offset
    for word in words:
        start = min(max(floor, word.start + offset), limit)
        end = min(max(start, word.end + offset), limit)
        ordered.append(attrs.evolve(word, start=start, end=end))
        floor = start
    return ordered
