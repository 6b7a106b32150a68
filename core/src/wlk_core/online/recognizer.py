"""The inner seam of a stream: what decodes one run of audio, step by step."""

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

    `committed` are final words in seconds of the run; `consumed_samples` is how much of the run
    the model has heard by now.
    """

    committed: tuple[Word, ...] = ()
    consumed_samples: int


class Recognizer(Protocol):
    """
    Decode runs of audio: the stretches between two silences.

    An OnlineStream owns life cycle, clock, threads and failure and calls this with one thread at
    a time.  Times and sample numbers count from the start of the run.  What has to be remembered
    across runs (a prompt, a detected language) stays with the recognizer.
    """

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words of the run that are not final; all start at or after the last final end."""
        ...

    @property
    def language(self) -> str | None:
        """The language forced or detected, as a code the spec declares; None while unknown."""
        ...

    @property
    def work(self) -> WorkCounters:
        """What was done since this recognizer was made."""
        ...

    @property
    def state_bytes(self) -> int | None:
        """Bytes of audio, text and model state held now; None if unknown."""
        ...

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the run; copies, runs no model and does not fail."""
        ...

    def step(self, *, is_last: bool) -> Step | None:
        """
        Do one bounded piece of work, or return None where there is nothing to do.

        Where the work happens must depend on the samples of the run alone, never on how they were
        fed: a policy ticks on its own grid.  With `is_last` the run is complete: the steps up to
        the first None consume and commit all of it.  A step that raises must leave everything as
        it was, so that the next call repeats it.
        """
        ...

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new run after a flush; `committed_text` is the end of the transcript so far."""
        ...

    def close(self) -> None:
        """Let go of everything held for this stream."""
        ...
