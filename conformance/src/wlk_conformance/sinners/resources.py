"""Sinners against RES."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner

if TYPE_CHECKING:
    from wlk_core import Emission, StreamStats

__all__: list[str] = []


class _Counting(Sin):
    """Knows how far it has processed, for its counters."""

    processed = 0.0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Remember."""
        del call
        self.processed = emission.processed_up_to
        return emission

    def reset(self) -> None:
        """Begin anew."""
        self.processed = 0.0
        self.stream.reset()

    def close(self) -> None:
        """Let go."""
        self.processed = 0.0
        self.stream.close()


@sinner("RES-01", defects="B15, B28")
class KeepsEverything(_Counting):
    """Keeps a kilobyte for each second of the stream."""

    @property
    def stats(self) -> StreamStats:
        """Count it."""
        stats: StreamStats = self.stream.stats
        held = (stats.state_bytes or 0) + round(1000 * self.processed)
        return attrs.evolve(stats, state_bytes=held)


@sinner("RES-02", defects="B15, B28, B59")
class WorksMoreAndMore(_Counting):
    """Runs its decoder over everything since the start of the stream."""

    @property
    def stats(self) -> StreamStats:
        """Count it."""
        stats: StreamStats = self.stream.stats
        extra = round(min(self.processed, stats.audio_seconds) ** 2)
        return attrs.evolve(stats, decoder_positions=(stats.decoder_positions or 0) + extra)


@sinner("RES-03", defects="B29", spec={"max_delay": 0.4})
class PromisesTooMuch(Sin):
    """Declares a delay that it does not keep."""


@sinner("RES-04", defects="B28")
class DecodesAllIdsAgain(Sin):
    """Gives each id to its detokeniser forty times."""

    @property
    def stats(self) -> StreamStats:
        """Count it."""
        stats: StreamStats = self.stream.stats
        return attrs.evolve(stats, detokenised_ids=40 * (stats.detokenised_ids or 0))
