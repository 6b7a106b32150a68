"""Six figures that describe a sample of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Distribution"]


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
