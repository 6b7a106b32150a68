"""Emission latency: how long after a word was spoken it is committed."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.tokens import ASRToken

__all__ = ["Latencies", "LatencySummary"]


@attrs.frozen(kw_only=True)
class LatencySummary:
    """
    Emission latency in seconds over the words of a session.

    Computation-unaware: it runs from the end of the word, by the word's own time, to the stream
    time of the audio received when it was committed.  The time that the model took is left out.
    """

    words: int
    median: float
    p90: float


@attrs.define
class Latencies:
    """Collect emission latencies, four bytes a word."""

    _seconds: array[float] = attrs.field(factory=lambda: array("f"))

    def add(self, tokens: Iterable[ASRToken], audio_time: float) -> None:
        """Add *tokens*, committed when audio up to `audio_time` had been received."""
        self._seconds.extend(max(0.0, audio_time - token.end) for token in tokens)

    def summary(self) -> LatencySummary | None:
        """Return the figures so far, None where no word was committed."""
        if not self._seconds:
            return None
        seconds = np.asarray(self._seconds)
        return LatencySummary(
            words=len(seconds),
            median=float(np.median(seconds)),
            p90=float(np.percentile(seconds, 90)),
        )
