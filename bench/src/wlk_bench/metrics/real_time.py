"""Real-time factor: work per second of audio, of a stream and of each of its ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.events import AudioIn, Call

if TYPE_CHECKING:
    from wlk_bench.events import EventLog

__all__ = ["RealTime", "Tick", "real_time"]


@attrs.frozen
class Tick:
    """One chunk: its end and length in seconds of audio, the work on it and its lateness."""

    audio_time: float
    seconds: float
    busy: float
    lateness: float

    @property
    def rtf(self) -> float:
        """Seconds of work per second of audio."""
        return self.busy / self.seconds


@attrs.frozen(kw_only=True)
class RealTime:
    """
    The work of one stream.

    `busy_seconds` is the time inside calls of the processor, without waiting, loading and reading
    audio.  `flush_seconds` is the part of it in flushes, which belong to no tick.
    """

    audio_seconds: float
    busy_seconds: float
    flush_seconds: float
    ticks: tuple[Tick, ...]

    @property
    def rtf(self) -> float | None:
        """Seconds of work per second of audio, flushes included; None without audio."""
        return self.busy_seconds / self.audio_seconds if self.audio_seconds else None


def real_time(log: EventLog) -> RealTime:
    """Return the work in *log*; pauses count as audio, because they last as long."""
    ticks: list[Tick] = []
    busy = flushed = at = 0.0
    for event in log.events:
        if isinstance(event, AudioIn):
            ticks.append(Tick(event.audio_time, event.audio_time - at, 0.0, 0.0))
            at = event.audio_time
        elif isinstance(event, Call):
            busy += event.duration
            if event.kind == "process_iter" and ticks:
                last, late = ticks[-1], event.wall + event.duration - event.audio_time
                ticks[-1] = Tick(last.audio_time, last.seconds, last.busy + event.duration, late)
            else:
                flushed += event.duration
                at = max(at, event.audio_time)
    return RealTime(
        audio_seconds=log.header.audio_seconds,
        busy_seconds=busy,
        flush_seconds=flushed,
        ticks=tuple(tick for tick in ticks if tick.seconds > 0),
    )
