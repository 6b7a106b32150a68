"""The errors of wlk-bench, all of them below `wlk_core.WLKError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Name the extra of wlk-bench that installs a package, where an import needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("wlk_bench", "wlk_core")):
            raise
        raise BenchError(
            f"expected {error.name}, got no such package: pip install 'wlk-bench[{name}]'"
        ) from error
