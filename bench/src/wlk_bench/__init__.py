"""Measure any streaming backend: one event log per stream, and every figure computed from it."""

from __future__ import annotations

from typing import Any

from wlk_bench.errors import (
    BenchError,
    CapacityError,
    DataError,
    LogError,
    NotComparable,
    ResultError,
)
from wlk_bench.events import EventLog, Header, read_log, write_log
from wlk_bench.reference import Reference, ReferenceSegment, ReferenceWord

__all__ = [
    "BenchError",
    "CapacityError",
    "DataError",
    "EventLog",
    "Header",
    "LogError",
    "NotComparable",
    "Reference",
    "ReferenceSegment",
    "ReferenceWord",
    "ResultError",
    "read_log",
    "write_log",
]


def __getattr__(name: str) -> Any:
    """Look the version up on first use."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely needed

        return version("wlk-bench")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
