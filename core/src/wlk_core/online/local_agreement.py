"""LocalAgreement over any engine that turns audio into timed words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.language import StreamLanguage
from wlk_core.online.recognizer import Step
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.local_agreement import (
    LocalAgreement,
    is_continued,
    split_overlap,
)
from wlk_core.streaming.window import BoundedWindow, words_in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.words import Word

__all__ = ["Hypothesis", "LocalAgreementRecognizer", "Transcriber"]


@attrs.frozen(kw_only=True)
class Hypothesis:
    """The result of an engine call: words in seconds from the start of the audio."""

    words: tuple[Word, ...] = ()
    language: str | None = None
    #: From 0 to 1, where the call detected the language; None where that is unknown.
    language_probability: float | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)


class Transcriber(Protocol):
    """An engine call: audio in, timed words out; all that a LocalAgreement backend provides."""

    def __call__(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        """
        Transcribe float32[n], n > 0 at 16 kHz, on its own.

        Args:
            audio: read-only, valid during the call.
            prompt: the text before the audio, may be ""; at most PROMPT_CHARACTERS long.
            language: a code, or None to detect it.

        Raises:
            Exception: whatever the engine raises; the stream wraps it and can repeat the call.

        """
        ...


class LocalAgreementRecognizer:
    """
    Re-transcribe a growing buffer every `tick_seconds` and commit what two hypotheses agree on.

    The buffer is a BoundedWindow.  Once it is longer than `buffer_seconds` it is cut after a
    committed word that `kept_seconds` of audio follow, and the engine never gets more than
    `max_seconds` of audio.
    """

    work: WorkCounters  #: the engine's work, added up

    def __init__(
        self,
        transcribe: Transcriber,
        *,
        language: str | None = None,
        prompt: str = "",
        tick_seconds: float = 1.0,
        buffer_seconds: float = 12.0,
        max_seconds: float = 28.0,
        kept_seconds: float = 0.0,
    ) -> None:
        self._transcribe = transcribe
        self._language = StreamLanguage(code=language, is_settled=language is not None)
        self.work = WorkCounters()
        self._window: BoundedWindow[Word] = BoundedWindow(
            lambda word: word,
            prefix_is_forced=False,
            prompt=prompt,
            tick_seconds=tick_seconds,
            buffer_seconds=buffer_seconds,
            max_seconds=max_seconds,
            kept_seconds=kept_seconds,
        )
        self.end_utterance("")

    @property
    def language(self) -> str | None:
        """The language forced, or detected in this or the last utterance."""
        return self._language.code

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words not yet agreed on, in seconds of the utterance."""
        return self._policy.hypothesis

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and text held, the prompt at its bound."""
        return self._window.nbytes + sum(len(word.text) for word in self._policy.hypothesis)

    def skip_ticks(self, *, is_skipping: bool) -> None:
        """Decode at the latest tick only, while `is_skipping`; see SupportsTickSkipping."""
        self._window.skips_ticks = is_skipping

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the buffer."""
        self._window.buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Transcribe up to the next tick, or to the end of a complete utterance."""
        stop = self._window.next_stop(is_last=is_last)
        if stop is not None:
            return self._transcribe_to(stop, is_last=not self._window.is_on_grid(stop))
        if not is_last or not self._policy.hypothesis:
            return None
        if self._language.holds_words:
            return self._transcribe_to(self._window.processed, is_last=True)
        self._language = self._language.committed(self._newest)
        return Step(committed=self._policy.flush(), consumed_samples=self._window.processed)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript as prompt."""
        self._window.reset(committed_text)
        self._policy = LocalAgreement()
        self._newest = Hypothesis()
        self._language = self._language.next_utterance()

    def close(self) -> None:
        """Release audio and text."""
        self.end_utterance("")

    def _transcribe_to(self, stop: int, *, is_last: bool) -> Step:
        # Nothing changes before the answer was read, so that a failed step can be repeated.
        window = self._window
        audio, start, end = window.audio(stop), window.start / SAMPLE_RATE, stop / SAMPLE_RATE
        hypothesis, language = self._language.decode(
            lambda prompt, code: self._transcribe(audio, prompt=prompt, language=code),
            window.prompt,
            speech_seconds=lambda hypothesis: end - start - hypothesis.words[0].start,
            is_last=is_last,
        )
        shifted = [word.shifted(start) for word in hypothesis.words]
        words = words_in_order(shifted, floor=start, limit=end)
        old, fresh = split_overlap(words, window.prefix, window.overlap_end)
        outside = sum(word.is_outside(start, end) for word in shifted)
        self.work += hypothesis.work
        window.processed = stop
        if window.prefix and old and is_continued(window.prefix[-1], old[-1]):
            window.retime(attrs.evolve(window.prefix[-1], end=old[-1].end))
        if language.is_change(self._language):
            window.forget_prompt()
        self._language, self._newest = language, hypothesis
        if not language.holds_words:
            committed = self._policy.update(fresh, audio_end=end)
        else:
            self._policy, committed = LocalAgreement(fresh), ()
        if is_last:
            committed += self._policy.flush()
        window.commit(committed)
        forced = window.bound(self._policy.hypothesis, is_quiet=not fresh)
        committed += self._policy.force(forced)
        if committed:
            self._language = language.committed(hypothesis)
        return Step(committed=committed, consumed_samples=stop, misplaced_words=outside)
