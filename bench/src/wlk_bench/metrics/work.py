"""The work and memory of a stream, and how they grow over its length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.events import AudioIn, Call
from wlk_bench.metrics.statistics import slope
from wlk_core.processor import WorkCounters

if TYPE_CHECKING:
    from wlk_bench.events import EventLog

WINDOW_SECONDS = 60.0  # seconds of audio in a window; work is summed per window
WARMUP_SECONDS = 60.0  # left out, because buffers and caches fill up first
HOUR = 3600.0
COUNTERS = tuple(field.name for field in attrs.fields(WorkCounters))


@attrs.frozen
class Tick:
    """One chunk: its audio, the work on it and its lateness, all in seconds."""

    seconds: float
    busy: float = 0.0
    lateness: float = 0.0


def ticks_of(log: EventLog) -> tuple[Tick, ...]:
    """Return a tick per chunk; a pause counts as audio of the next chunk, a flush not at all."""
    ticks: list[Tick] = []
    at = 0.0
    for event in log.events:
        if isinstance(event, AudioIn):
            ticks.append(Tick(event.audio_time - at))
            at = event.audio_time
        elif isinstance(event, Call):
            if event.kind == "process_iter" and ticks:
                last = ticks[-1]
                ticks[-1] = Tick(
                    seconds=last.seconds,
                    busy=last.busy + event.duration,
                    lateness=event.wall + event.duration - event.audio_time,
                )
            else:
                at = max(at, event.audio_time)
    return tuple(tick for tick in ticks if tick.seconds > 0)


@attrs.frozen(kw_only=True)
class WorkWindow:
    """The work in one window of a stream; `start` and `seconds` are times in the audio."""

    start: float
    seconds: float
    busy_seconds: float
    counts: dict[str, int]


def work_totals(log: EventLog) -> dict[str, int]:
    """Return the final counters of the stream, without those that the backend cannot know."""
    return _known(sum((call.work for call in log.of(Call)), WorkCounters()))


def work_windows(log: EventLog, seconds: float = WINDOW_SECONDS) -> tuple[WorkWindow, ...]:
    """Sum the work per window of audio; a short remainder belongs to the last window."""
    length = log.header.audio_seconds
    number = max(1, round(length / seconds))
    busy = [0.0] * number
    work = [WorkCounters()] * number
    for call in log.of(Call):
        # A chunk that ends on a boundary belongs to the window before it.
        index = min(int(max(0.0, call.audio_time - 1e-6) // seconds), number - 1)
        busy[index] += call.duration
        work[index] += call.work
    return tuple(
        WorkWindow(
            start=index * seconds,
            seconds=seconds if index < number - 1 else length - index * seconds,
            busy_seconds=busy[index],
            counts=_known(work[index]),
        )
        for index in range(number)
    )


def _known(work: WorkCounters) -> dict[str, int]:
    return attrs.asdict(work, filter=lambda _counter, count: count is not None)


def memory_slopes(log: EventLog) -> dict[str, float | None]:
    """Return the growth of the stream's state and of the process, in bytes per hour of audio."""
    states = [
        (call.audio_time / HOUR, call.state_bytes)
        for call in log.of(Call)
        if call.state_bytes is not None and call.audio_time >= WARMUP_SECONDS
    ]
    resident = [
        (event.audio_time / HOUR, event.resident_bytes)
        for event in log.of(AudioIn)
        if event.resident_bytes is not None and event.audio_time >= WARMUP_SECONDS
    ]
    return {"state_bytes_per_hour": slope(states), "resident_bytes_per_hour": slope(resident)}
