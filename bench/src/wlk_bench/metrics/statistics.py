"""Distributions, confidence intervals of ratios, and slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

RESAMPLES = 1000
CONFIDENCE = 0.95
_SEED = 0  # the same blocks always give the same interval


@attrs.frozen(kw_only=True)
class Distribution:
    """Count, mean, percentiles (interpolated linearly between ranks) and maximum of numbers."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution | None:
        """Describe *values*; None if there are none."""
        numbers = np.asarray(list(values), dtype=np.float64)
        if not len(numbers):
            return None
        p50, p90, p95, highest = map(float, np.percentile(numbers, [50, 90, 95, 100]))
        mean = float(numbers.mean())
        return cls(count=len(numbers), mean=mean, p50=p50, p90=p90, p95=p95, max=highest)

    @classmethod
    def figures(cls, values: Iterable[float], *names: str) -> dict[str, float] | None:
        """Return the figures called *names*, by default all; None if there are no values."""
        if (distribution := cls.of(values)) is None:
            return None
        every = attrs.asdict(distribution)
        return {name: every[name] for name in names or every}


@attrs.frozen(kw_only=True)
class PairedDifference:
    """The ratio of B minus that of A on the same blocks, with its 95 % interval."""

    difference: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def ratio_interval(blocks: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """
    Return the 95 % interval of sum(numerators) / sum(denominators) over *blocks*.

    Whole blocks are drawn with replacement (Bisani & Ney 2004,
    https://doi.org/10.1109/ICASSP.2004.1326009).  If there are no errors, every resample gives 0,
    so the upper bound is the binomial one (Clopper & Pearson), as if each unit of the denominators,
    a word or a second, were independent.  The interval is None with fewer than two blocks or a
    denominator of 0.
    """
    counts = _counts(blocks)
    interval = _resampled(counts)
    if interval is None or counts[:, 0].any():
        return interval
    return 0.0, 1.0 - ((1.0 - CONFIDENCE) / 2) ** (1.0 / float(counts[:, 1].sum()))


def pooled_rate(blocks: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """Return sum(numerators) / sum(denominators) of *blocks* as "rate", with its interval."""
    total = sum(length for _, length in blocks)
    low, high = ratio_interval(blocks) or (None, None)
    rate = sum(part for part, _ in blocks) / total if total else None
    return {"rate": rate, "low": low, "high": high}


def paired_difference(
    blocks_a: Sequence[tuple[int, int]], blocks_b: Sequence[tuple[int, int]]
) -> PairedDifference | None:
    """
    Compare two systems, A and B, on blocks of the same references.

    The difference is None with fewer than two blocks.
    """
    a, b = _counts(blocks_a), _counts(blocks_b)
    counts = np.column_stack([b[:, 0] - a[:, 0], a[:, 1]])
    interval = _resampled(counts)
    if interval is None:
        return None
    errors, length = counts.sum(axis=0)
    return PairedDifference(difference=float(errors / length), low=interval[0], high=interval[1])


def _counts(blocks: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    return np.asarray(blocks, dtype=np.float64).reshape(-1, 2)


def _resampled(counts: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the interval of the ratio of the column sums, over rows drawn with replacement."""
    blocks = len(counts)
    if blocks < 2 or counts[:, 1].sum() == 0:  # noqa: PLR2004 -- one block has no spread
        return None
    rng = np.random.default_rng(_SEED)
    sums = rng.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=RESAMPLES) @ counts
    sums = sums[sums[:, 1] > 0]
    outside = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [outside, 100 - outside])
    return float(low), float(high)


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the least-squares slope; None with fewer than two distinct values of x."""
    if len({x for x, _ in points}) < 2:  # noqa: PLR2004 -- a line needs two points
        return None
    x, y = np.transpose(points)
    return float(np.polyfit(x, y, 1)[0])
