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
_SEED = 0  # the same blocks give the same interval, everywhere


@attrs.frozen(kw_only=True)
class Distribution:
    """Count, mean, median, 90th and 95th percentile and maximum; linear between ranks."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution | None:
        """Describe *values*; None for no values."""
        numbers = np.asarray(list(values), dtype=np.float64)
        if not len(numbers):
            return None
        p50, p90, p95 = np.percentile(numbers, [50, 90, 95])
        return cls(
            count=len(numbers),
            mean=float(numbers.mean()),
            p50=float(p50),
            p90=float(p90),
            p95=float(p95),
            max=float(numbers.max()),
        )

    @classmethod
    def figures(cls, values: Iterable[float], *names: str) -> dict[str, float] | None:
        """Return the figures of *names* alone."""
        found = cls.of(values)
        return None if found is None else {name: getattr(found, name) for name in names}


@attrs.frozen
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


@attrs.frozen(kw_only=True)
class PairedDifference:
    """Ratio of B minus ratio of A on the same blocks."""

    difference: float
    interval: Interval

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval.low > 0 or self.interval.high < 0


def ratio_interval(blocks: Sequence[tuple[float, float]]) -> Interval | None:
    """
    Return the interval of sum(numerators) / sum(denominators) over *blocks*.

    Whole blocks are drawn with replacement (Bisani & Ney 2004,
    https://doi.org/10.1109/ICASSP.2004.1326009).  Without a single error every resample gives 0, so
    the upper end is then the binomial one (Clopper & Pearson), for independent words.  The interval
    is None for fewer than two blocks or a denominator of 0.
    """
    counts = np.asarray(blocks, dtype=np.float64).reshape(-1, 2)
    if len(counts) < 2 or counts[:, 1].sum() == 0:  # noqa: PLR2004 -- one block has no spread
        return None
    if counts[:, 0].sum() == 0:
        return Interval(0.0, 1.0 - ((1.0 - CONFIDENCE) / 2) ** (1.0 / float(counts[:, 1].sum())))
    sums = _drawn(len(counts)) @ counts
    return _interval(sums[:, 0] / np.maximum(sums[:, 1], 1.0))


def pooled_rate(blocks: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """Return sum(numerators) / sum(denominators) over *blocks*, "rate", and its interval."""
    total, interval = sum(length for _, length in blocks), ratio_interval(blocks)
    return {
        "rate": sum(part for part, _ in blocks) / total if total else None,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
    }


def paired_difference(
    blocks_a: Sequence[tuple[int, int]], blocks_b: Sequence[tuple[int, int]]
) -> PairedDifference | None:
    """
    Compare two systems, A and B, block by block; the blocks are of the same references.

    The difference is None for fewer than two blocks.
    """
    a = np.asarray(blocks_a, dtype=np.float64).reshape(-1, 2)
    b = np.asarray(blocks_b, dtype=np.float64).reshape(-1, 2)
    if len(a) < 2 or a[:, 1].sum() == 0:  # noqa: PLR2004 -- one block has no spread
        return None
    draws = _drawn(len(a))
    lengths = np.maximum(draws @ a[:, 1], 1.0)
    differences = (draws @ (b[:, 0] - a[:, 0])) / lengths
    return PairedDifference(
        difference=float((b[:, 0].sum() - a[:, 0].sum()) / a[:, 1].sum()),
        interval=_interval(differences),
    )


def _drawn(blocks: int) -> NDArray[np.float64]:
    """Return the number of times each block is drawn in each resample."""
    rng = np.random.default_rng(_SEED)
    shares = np.full(blocks, 1.0 / blocks)
    return rng.multinomial(blocks, shares, size=RESAMPLES).astype(np.float64)


def _interval(values: NDArray[np.float64]) -> Interval:
    outside = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [outside, 100 - outside])
    return Interval(float(low), float(high))


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of the line of least squares; None below two distinct values of x."""
    if len({x for x, _ in points}) < 2:  # noqa: PLR2004 -- a line needs two points
        return None
    x, y = np.transpose(points)
    return float(np.polyfit(x, y, 1)[0])
