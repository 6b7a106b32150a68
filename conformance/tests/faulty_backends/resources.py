"""Faulty backends that break RES."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from faulty_backends.base import FaultyStream, breaks

if TYPE_CHECKING:
    from wlk_core import Emission, StreamStats

__all__: list[str] = []


class _Counting(FaultyStream):
    """Keeps the processed time for its counters."""

    processed = 0.0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Note the time."""
        del call
        self.processed = emission.processed_up_to
        return emission

    def reset(self) -> None:
        """Start over."""
        self.processed = 0.0
        self.stream.reset()

    def close(self) -> None:
        """Start over."""
        self.processed = 0.0
        self.stream.close()


@breaks("RES-01")
class KeepsEverything(_Counting):
    """Keeps a kilobyte for each second of the stream."""

    @property
    def stats(self) -> StreamStats:
        """Count it."""
        stats: StreamStats = self.stream.stats
        held = (stats.state_bytes or 0) + round(1000 * self.processed)
        return attrs.evolve(stats, state_bytes=held)


@breaks("RES-02")
class DecodesEverythingAgain(_Counting):
    """Runs its decoder over all audio since the start of the stream."""

    @property
    def stats(self) -> StreamStats:
        """Count it."""
        stats: StreamStats = self.stream.stats
        extra = round(min(self.processed, stats.audio_seconds) ** 2)
        return attrs.evolve(stats, decoder_positions=(stats.decoder_positions or 0) + extra)


@breaks("RES-03", spec={"max_delay": 0.4})
class ExceedsDeclaredDelay(FaultyStream):
    """Declares a delay that it does not keep."""


@breaks("RES-04")
class DetokenisesAllIdsAgain(FaultyStream):
    """Passes each id to its detokeniser forty times."""

    @property
    def stats(self) -> StreamStats:
        """Count it."""
        stats: StreamStats = self.stream.stats
        return attrs.evolve(stats, detokenised_ids=40 * (stats.detokenised_ids or 0))
