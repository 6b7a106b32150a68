"""Growth of work and memory over the length of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.events import AudioIn, Call
from wlk_core.processor import WorkCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_bench.events import EventLog

__all__ = [
    "Slope",
    "WorkWindow",
    "memory_slopes",
    "slope",
    "work_slope",
    "work_totals",
    "work_windows",
]

WINDOW_SECONDS = 60.0  # audio over which work is summed before it is compared
WARMUP_SECONDS = 60.0  # left out, because buffers and caches fill up first
HOUR = 3600.0
COUNTERS = tuple(field.name for field in attrs.fields(WorkCounters))


@attrs.frozen(kw_only=True)
class Slope:
    """
    A line through points: growth per hour of audio, its 95 % interval, and the level at the start.

    The interval is that of ordinary least squares, None below five points.
    """

    per_hour: float
    low: float | None
    high: float | None
    level: float
    points: int


@attrs.frozen(kw_only=True)
class WorkWindow:
    """The work in one window of a stream; `start` in seconds of audio."""

    start: float
    seconds: float
    busy_seconds: float
    counts: dict[str, int]


def work_totals(log: EventLog) -> dict[str, int]:
    """Return the counters of the stream at its end; those the backend cannot know are absent."""
    totals: dict[str, int] = {}
    for call in log.of(Call):
        _count(totals, call)
    return totals


def work_windows(log: EventLog, seconds: float = WINDOW_SECONDS) -> tuple[WorkWindow, ...]:
    """Sum the work by the audio it belongs to; a short rest belongs to the last window."""
    length = log.header.audio_seconds
    number = max(1, round(length / seconds))
    busy = [0.0] * number
    counts: list[dict[str, int]] = [{} for _ in range(number)]
    for call in log.of(Call):
        # A chunk that ends on the border is audio of the window before it.
        index = min(int(max(0.0, call.audio_time - 1e-6) // seconds), number - 1)
        busy[index] += call.duration
        _count(counts[index], call)
    return tuple(
        WorkWindow(
            start=index * seconds,
            seconds=min(seconds, length - index * seconds),
            busy_seconds=busy[index],
            counts=counts[index],
        )
        for index in range(number)
    )


def _count(totals: dict[str, int], call: Call) -> None:
    """Add the work of a call to *totals*; counters that the backend cannot know are absent."""
    for name in COUNTERS:
        if (count := getattr(call.work, name)) is not None:
            totals[name] = totals.get(name, 0) + count


def work_slope(windows: Sequence[WorkWindow], counter: str) -> Slope | None:
    """Return the growth of work per second of audio after the warm-up; None for short streams."""
    counted = [window for window in windows if window.start >= WARMUP_SECONDS]
    return slope(
        [window.start / HOUR for window in counted],
        [window.counts.get(counter, 0) / window.seconds for window in counted],
    )


def memory_slopes(log: EventLog) -> dict[str, Slope | None]:
    """Return the growth of the bytes of the stream and of the process after the warm-up."""
    held = [
        (call.audio_time, call.state_bytes)
        for call in log.of(Call)
        if call.state_bytes is not None and call.audio_time >= WARMUP_SECONDS
    ]
    resident = [
        (event.audio_time, event.resident_bytes)
        for event in log.of(AudioIn)
        if event.resident_bytes is not None and event.audio_time >= WARMUP_SECONDS
    ]
    return {
        "state_bytes": slope([time / HOUR for time, _ in held], [size for _, size in held]),
        "resident_bytes": slope(
            [time / HOUR for time, _ in resident], [size for _, size in resident]
        ),
    }


def slope(x: Sequence[float], y: Sequence[float]) -> Slope | None:
    """Fit a line by least squares; None below two distinct values of *x*."""
    if len(x) < 2 or max(x) == min(x):  # noqa: PLR2004 -- a line needs two points
        return None
    at, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    centred = at - at.mean()
    spread = float(centred @ centred)
    steepness = float(centred @ values) / spread
    level = float(values.mean()) + steepness * float(at[0] - at.mean())
    low = high = None
    freedom = len(at) - 2
    if freedom >= 3:  # noqa: PLR2004 -- below, the expansion of the quantile is off by percents
        residuals = values - values.mean() - steepness * centred
        error = float(np.sqrt(residuals @ residuals / freedom / spread))
        margin = _student_quantile(freedom) * error
        low, high = steepness - margin, steepness + margin
    return Slope(per_hour=steepness, low=low, high=high, level=level, points=len(at))


def _student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t (Abramowitz & Stegun 26.7.5)."""
    z = 1.959963984540054
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + float(sum(term / freedom**power for power, term in enumerate(terms, 1)))
