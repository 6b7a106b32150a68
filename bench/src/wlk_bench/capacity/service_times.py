"""What the chunks of sessions cost a replica, as measured, by how many streams are due together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["ServiceTimes"]


def _costs(by_streams: Mapping[int, tuple[tuple[float, ...], ...]]) -> None:
    if not by_streams or any(not trace for traces in by_streams.values() for trace in traces):
        raise DataError("expected the cost of at least one chunk of each stream, got none")


@attrs.frozen(kw_only=True)
class ServiceTimes:
    """
    What each chunk of audio costs, in seconds.

    With `workers` that step sessions, a chunk occupies one of them, the longer the more of them are
    busy.  With batching, the chunks that wait are taken together, `workers` of them at most, and
    the engine is occupied for the whole of the run.

    Attributes:
        chunk_seconds: of audio in a chunk.
        tick_seconds: how long after its arrival a chunk is to be done.
        workers: steps that may overlap.
        is_batching: whether the engine takes chunks together.
        by_streams: for a number of streams that are due together, the costs of the chunks of each
            stream in their order.

    """

    chunk_seconds: float
    tick_seconds: float
    workers: int
    is_batching: bool
    by_streams: Mapping[int, tuple[tuple[float, ...], ...]] = attrs.field(
        validator=lambda _self, _field, value: _costs(value)
    )

    @classmethod
    def constant(
        cls, seconds: float, *, chunk_seconds: float = 0.5, workers: int = 1
    ) -> ServiceTimes:
        """Return chunks that all cost *seconds*, for calculations by hand."""
        return cls(
            chunk_seconds=chunk_seconds,
            tick_seconds=chunk_seconds,
            workers=workers,
            is_batching=False,
            by_streams={workers: ((seconds,),)},
        )

    @property
    def most_streams(self) -> int:
        """The largest number of streams that were measured together."""
        return max(self.by_streams)

    @property
    def mean(self) -> float:
        """Seconds of a worker for a chunk when all are busy; of the engine's run with batching."""
        return self._mean(self.most_streams)

    def _mean(self, streams: int) -> float:
        return float(np.mean(np.concatenate(self.by_streams[streams])))

    def means(self, most: int) -> list[float]:
        """Return the mean cost by 0 to *most* streams that are due together, between measured."""
        widths = sorted(self.by_streams)
        means = [self._mean(width) for width in widths]
        if self.is_batching and len(widths) > 1 and most > widths[-1]:
            growth = (means[-1] - means[-2]) / (widths[-1] - widths[-2])
            widths.append(most)
            means.append(means[-1] + max(0.0, growth) * (most - widths[-2]))
        return [float(mean) for mean in np.interp(range(most + 1), widths, means)]

    def costs(self, streams: NDArray[np.int64], chunks: NDArray[np.int64]) -> NDArray[np.float64]:
        """
        Return what chunks cost when all workers are busy: number *chunks* of the *streams*, from 0.

        Streams repeat those that were measured.  A stream that is longer repeats the second half,
        because the first chunks of a stream cost less.
        """
        table = self._table
        length = table.shape[1]
        half = length // 2
        repeated = half + (chunks - length) % (length - half)
        numbers = np.where(chunks < length, chunks, repeated)
        return np.asarray(table[streams % len(table), numbers], dtype=np.float64)

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        """The costs of the most streams, a row for each, cut to the shortest."""
        traces = self.by_streams[self.most_streams]
        length = min(map(len, traces))
        return np.array([trace[:length] for trace in traces])

    def alternated(self, other: ServiceTimes) -> ServiceTimes:
        """
        Return the costs between two measurements: of each stream from one of them, in turn.

        A stream keeps its number, and so its clip.  Runs of an engine with batching belong to no
        stream, and are those of both.
        """
        merged = self.merged(other)
        if self.is_batching:
            return merged
        widest = merged.most_streams
        both = self.by_streams[widest], other.by_streams[widest]
        longer = max(both, key=len)
        traces = tuple(
            both[index % 2][index] if index < min(map(len, both)) else longer[index]
            for index in range(len(longer))
        )
        return attrs.evolve(merged, by_streams={**merged.by_streams, widest: traces})

    def merged(self, other: ServiceTimes) -> ServiceTimes:
        """Return the costs of two measurements of one backend as those of twice the streams."""
        by_streams = {
            streams: (*traces, *other.by_streams[streams])
            for streams, traces in self.by_streams.items()
            if streams in other.by_streams
        }
        return attrs.evolve(self, by_streams=by_streams)

    def scaled(self, factor: float) -> ServiceTimes:
        """Return costs that are all multiplied by *factor*."""
        by_streams = {
            streams: tuple(tuple(factor * cost for cost in trace) for trace in traces)
            for streams, traces in self.by_streams.items()
        }
        return attrs.evolve(self, by_streams=by_streams)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; costs are rounded to microseconds."""
        return {
            **attrs.asdict(self, filter=attrs.filters.exclude("by_streams")),
            "by_streams": {
                str(streams): [[round(cost, 6) for cost in trace] for trace in traces]
                for streams, traces in self.by_streams.items()
            },
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ServiceTimes:
        """
        Return what `to_json` wrote.

        Raises:
            DataError: a field is absent or of another type.

        """
        try:
            by_streams = {
                int(streams): tuple(tuple(float(cost) for cost in trace) for trace in traces)
                for streams, traces in record["by_streams"].items()
            }
            return cls(
                chunk_seconds=float(record["chunk_seconds"]),
                tick_seconds=float(record["tick_seconds"]),
                workers=int(record["workers"]),
                is_batching=bool(record["is_batching"]),
                by_streams=by_streams,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"expected service times that wlk-bench capacity wrote, got {error}"
            ) from error
