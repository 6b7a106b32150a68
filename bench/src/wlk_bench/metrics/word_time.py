"""Errors of word times: shift, spread, collars and order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from wlk_bench.metrics.alignment import WordAlignment
    from wlk_bench.metrics.emitted import EmittedWord
    from wlk_bench.reference import Reference

__all__ = ["COLLARS", "BoundaryError", "TimeErrors", "boundary_error", "shift", "time_errors"]

COLLARS = (0.05, 0.1, 0.2)  #: seconds within which a boundary counts as correct


@attrs.frozen(kw_only=True)
class TimeErrors:
    """
    Signed errors in seconds (positive: too late) of the words recognised in one stream.

    `backsteps` counts the emitted words that start before the word in front of them.
    """

    starts: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    backsteps: int = 0


@attrs.frozen(kw_only=True)
class BoundaryError:
    """Errors of one kind of boundary: bias is the mean, the others are of absolute values."""

    bias: float
    median: float
    p90: float
    within: dict[str, float]  #: share of boundaries within each collar, by its milliseconds


def time_errors(
    reference: Reference, words: Sequence[EmittedWord], alignment: WordAlignment
) -> TimeErrors:
    """Compare the times of words aligned as equal."""
    pairs = [(reference.words[i], words[j]) for i, j in alignment.equal]
    return TimeErrors(
        starts=tuple(word.start - true.start for true, word in pairs),
        ends=tuple(word.end - true.end for true, word in pairs),
        backsteps=sum(b.start < a.start for a, b in pairwise(words)),
    )


def boundary_error(errors: Iterable[float]) -> BoundaryError | None:
    """Describe signed errors; None for no errors."""
    signed = _array(errors)
    if not len(signed):
        return None
    size = np.abs(signed)
    return BoundaryError(
        bias=float(signed.mean()),
        median=float(np.median(size)),
        p90=float(np.percentile(size, 90)),
        within={
            f"{round(1000 * collar)} ms": float(np.mean(size <= collar + 1e-9))
            for collar in COLLARS
        },
    )


def shift(starts: Iterable[float], ends: Iterable[float]) -> float | None:
    """Return the accumulated average shift (AAS): the mean absolute error over all boundaries."""
    size = np.abs(np.concatenate([_array(starts), _array(ends)]))
    return float(size.mean()) if len(size) else None


def _array(values: Iterable[float]) -> NDArray[np.float64]:
    return np.asarray(list(values), dtype=np.float64)
