"""LocalAgreement over any engine that turns audio into timed words."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.windowed import WindowedRecognizer
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.policies import count_agreed, is_continued, split_overlap
from wlk_core.streaming.window import BoundedWindow, words_in_order
from wlk_core.streaming.words import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

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


class LocalAgreementRecognizer(WindowedRecognizer[Word]):
    """
    Re-transcribe a growing buffer every `tick_seconds` and commit what two hypotheses agree on.

    The buffer is a BoundedWindow.  Once it is longer than `buffer_seconds` it is cut after a
    committed word that `kept_seconds` of audio follow, and the engine never gets more than
    `max_seconds` of audio.
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
        kept_seconds: float = 0.0,
    ) -> None:
        self._transcribe = transcribe
        window: BoundedWindow[Word] = BoundedWindow(
            lambda word: word,
            prefix_is_forced=False,
            prompt=prompt,
            tick_seconds=tick_seconds,
            buffer_seconds=buffer_seconds,
            max_seconds=max_seconds,
            kept_seconds=kept_seconds,
        )
        super().__init__(window, language=language)

    def _engine_call(self, stop: int, *, is_last: bool) -> Callable[..., Hypothesis]:
        del is_last  # an engine that knows no policy transcribes all alike
        return partial(self._transcribe, self._window.audio(stop))

    def _new_words(self, words: Sequence[Word], stop: int) -> tuple[Word, ...]:
        window = self._window
        start, end = window.start / SAMPLE_RATE, stop / SAMPLE_RATE
        ordered = words_in_order([word.shifted(start) for word in words], floor=start, limit=end)
        old, fresh = split_overlap(ordered, window.prefix, window.overlap_end)
        if window.prefix and old and is_continued(window.prefix[-1], old[-1]):
            window.retime(attrs.evolve(window.prefix[-1], end=old[-1].end))
        return fresh

    def _count_final(self, words: Sequence[Word], stop: int) -> int:
        del stop
        return count_agreed(self._upcoming, words)
