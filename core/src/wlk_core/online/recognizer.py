"""The protocol between a stream and what decodes its utterances, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import WorkCounters
    from wlk_core.streaming.words import Word

__all__ = ["Recognizer", "Step"]


@attrs.frozen(kw_only=True)
class Step:
    """
    What one step of a recognizer decided.

    `committed` are final words in seconds of the utterance.  `consumed_samples` is how many
    samples of the utterance the model has processed by now.  `misplaced_words` counts the words of
    the engine that it put outside its audio (`Word.is_outside`) and that were moved into it.
    """

    committed: tuple[Word, ...] = ()
    consumed_samples: int
    misplaced_words: int = 0


class Recognizer(Protocol):
    """
    Decode utterances: the audio between two silences.

    An OnlineStream owns life cycle, clock, threads and failure; it calls a recognizer from one
    thread at a time.  Times and sample numbers count from the start of the utterance.  What
    outlives an utterance (a prompt, a detected language) stays with the recognizer.

    Only `step` runs the model, and only `step` may fail.  It must leave everything as it was when
    it raises, because the stream counts the failure and the next call repeats the step.
    """

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words of the utterance that are not final, none before the last committed end."""
        ...

    @property
    def language(self) -> str | None:
        """The language forced or detected, as a code the spec declares; None while unknown."""
        ...

    @property
    def work(self) -> WorkCounters:
        """The engine's work since this recognizer was made."""
        ...

    @property
    def state_bytes(self) -> int | None:
        """Bytes of audio, text and model state held now; None if unknown."""
        ...

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append a copy of float32[n] to the utterance; runs no model."""
        ...

    def step(self, *, is_last: bool) -> Step | None:
        """
        Do one bounded piece of work, or return None where there is nothing to do.

        Where the work happens depends on the samples of the utterance alone, never on how they
        were fed.  So a policy ticks on its own grid.  With `is_last` the utterance is complete, and
        the steps up to the first None consume and commit all of it.
        """
        ...

    def end_utterance(self, committed_text: str) -> None:
        """
        Begin a new utterance; *committed_text* is the end of the transcript so far.

        Runs no model: a KV cache for the next utterance is opened by its first step.
        """
        ...

    def close(self) -> None:
        """Release everything held for this stream; runs no model."""
        ...
