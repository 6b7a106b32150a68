"""The errors of wlk-bench, all of them subclasses of `wlk_core.WLKError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator


class BenchError(WLKError):
    """Anything wlk-bench raises on purpose."""


class DataError(BenchError, ValueError):
    """A data set or a setting of a run is missing, empty or invalid."""


class LogError(BenchError, ValueError):
    """An event log is damaged, truncated or written in another schema."""


class ResultError(BenchError, ValueError):
    """A result file or an output directory is not what the command expects."""


class CapacityError(BenchError):
    """A backend cannot sustain even one session, or the machine has too few cores."""


class NotComparable(BenchError):  # noqa: N818 -- a relation between results, not a mistake
    """The figures of two results mean different things: other data, normaliser or unit."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn a failed import into an error that names the extra of wlk-bench to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("wlk_bench", "wlk_core", "wlk_live")):
            raise
        raise BenchError(
            f"{error.name} is not installed; install it with: pip install 'wlk-bench[{name}]'"
        ) from error
