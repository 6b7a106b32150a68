"""The errors of wlk-bench, all of them below `wlk_core.WLKError`."""

from __future__ import annotations

from wlk_core.errors import WLKError


class BenchError(WLKError):
    """Anything wlk-bench raises on purpose."""


class DataError(BenchError, ValueError):
    """A data set is absent, empty or not what its format promises."""


class LogError(BenchError, ValueError):
    """An event log is damaged, cut short or written in another schema."""


class ResultError(BenchError, ValueError):
    """A result file or an output directory is not what the command takes."""


class CapacityError(BenchError):
    """A backend keeps no session in real time, or its report cannot be used."""


class NotComparable(BenchError):  # noqa: N818 -- a relation between results, not a mistake
    """Results differ in what their figures mean: the data, the normaliser or the unit."""
