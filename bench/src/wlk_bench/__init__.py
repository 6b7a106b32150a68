"""Measure any streaming backend: one event log per stream, and every figure computed from it."""

from __future__ import annotations

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
