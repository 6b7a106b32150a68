"""What LocalAgreement and AlignAtt share: a bounded window of audio, decoded anew at each tick."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wlk_core.online.language import StreamLanguage
from wlk_core.online.recognizer import Step
from wlk_core.processor import SAMPLE_RATE, WorkCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.window import BoundedWindow
    from wlk_core.streaming.words import Word

__all__ = ["WindowedRecognizer"]

T = TypeVar("T")


class WindowedRecognizer(ABC, Generic[T]):
    """
    Decode a BoundedWindow at every tick, and commit the words that a policy finds final.

    The policies differ in how they call the engine, which words of its answer are new, and how many
    of those are final.  Their items are those of the window.
    """

    work: WorkCounters  #: the engine's work, added up
    _upcoming: tuple[T, ...]  # words of the newest hypothesis that are not final
    _detected: str | None  # the language of that hypothesis

    def __init__(self, window: BoundedWindow[T], *, language: str | None) -> None:
        self._window = window
        self._language = StreamLanguage(code=language, is_settled=language is not None)
        self.work = WorkCounters()
        self.end_utterance("")

    @property
    def language(self) -> str | None:
        """The language forced, or detected in this or the last utterance."""
        return self._language.code

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words that are not final, in seconds of the utterance."""
        return tuple(map(self._window.word_of, self._upcoming))

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and text held, the prompt at its bound."""
        return self._window.nbytes + sum(len(word.text) for word in self.hypothesis)

    def skip_ticks(self, *, is_skipping: bool) -> None:
        """Decode at the latest tick only, while `is_skipping`; see SupportsTickSkipping."""
        self._window.skips_ticks = is_skipping

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the window."""
        self._window.buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode up to the next tick, or to the end of a complete utterance."""
        stop = self._window.next_stop(is_last=is_last)
        if stop is not None:
            return self._decode_to(stop, is_last=not self._window.is_on_grid(stop))
        if not is_last or not self._upcoming:
            return None
        if self._language.holds_words:
            return self._decode_to(self._window.processed, is_last=True)
        # The utterance ends on a tick, which has decoded all of it: another call would be wasted.
        committed, self._upcoming = self.hypothesis, ()
        self._language = self._language.committed(self._detected)
        return Step(committed=committed, consumed_samples=self._window.processed)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript as prompt."""
        self._window.reset(committed_text)
        self._upcoming = ()
        self._detected = None
        self._language = self._language.next_utterance()

    def close(self) -> None:
        """Release audio, text and caches."""
        self.end_utterance("")

    def _decode_to(self, stop: int, *, is_last: bool) -> Step:
        # Nothing changes before the answer was read, so that a failed step can be repeated.
        window = self._window
        seconds, end = (stop - window.start) / SAMPLE_RATE, stop / SAMPLE_RATE
        answer, language = self._language.decode(
            self._engine_call(stop, is_last=is_last),
            window.prompt,
            speech_seconds=lambda answer: seconds - window.word_of(answer.words[0]).start,
            is_last=is_last,
        )
        fresh = self._new_words(answer.words, stop)
        if is_last:
            count = len(fresh)
        elif language.holds_words:
            count = 0
        else:
            # Audio after the window may add to its last word: two hypotheses can agree on what a
            # model makes of the first half of one, and attention stays within that half.
            may_continue = fresh and window.word_of(fresh[-1]).may_continue(end)
            count = self._count_final(fresh[:-1] if may_continue else fresh, stop)
        outside = sum(window.word_of(item).is_outside(seconds) for item in answer.words)
        self.work += answer.work
        if language.is_change(self._language):
            window.forget_prompt()
        window.processed = stop
        window.commit(fresh[:count])
        count += window.bound(fresh[count:], is_quiet=not fresh)
        committed, self._upcoming = fresh[:count], fresh[count:]
        self._language, self._detected = language, answer.language
        if committed:
            self._language = language.committed(answer.language)
        self._note_committed(committed)
        return Step(
            committed=tuple(map(window.word_of, committed)),
            consumed_samples=stop,
            misplaced_words=outside,
        )

    @abstractmethod
    def _engine_call(self, stop: int, *, is_last: bool) -> Callable[..., Any]:
        """Return the engine call on the window up to *stop*; it takes `prompt` and `language`."""

    @abstractmethod
    def _new_words(self, words: Sequence[T], stop: int) -> tuple[T, ...]:
        """
        Return the words of an answer that were not committed before, in seconds of the utterance.

        Those of the answer count from the start of the window.  May raise before it changes any
        state, but not after.
        """

    @abstractmethod
    def _count_final(self, words: Sequence[T], stop: int) -> int:
        """Return how many of the new words are final, none of which can still be continued."""

    def _note_committed(self, items: Sequence[T]) -> None:
        """Take note of what was committed."""
