"""Feed audio to one processor on a chunk schedule and record every event."""

from __future__ import annotations

from itertools import groupby
import sys
from time import perf_counter, sleep
from typing import TYPE_CHECKING, cast

import attrs

from wlk_bench.environment import resident_bytes
from wlk_bench.events import AudioIn, Call, Commit, End, HypothesisShown, TimedText
from wlk_core.errors import BackendError
from wlk_core.processor import MAX_RETRIES, SAMPLE_RATE, WorkCounters
from wlk_live.audio import rechunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_bench.events import Event
    from wlk_core.processor import OnlineProcessor, StreamStats
    from wlk_core.tokens import ASRToken, Emission


@attrs.frozen
class Pause:
    """Silence of that many seconds, reported to the processor instead of inserted as audio."""

    seconds: float


@attrs.define
class Clock:
    """
    Seconds since the start of a stream, in one of two ways.

    A paced clock is real time, and a chunk waits until it would have been spoken.  The other clock
    skips the time in which the backend is idle: a chunk arrives exactly when its audio ends or, if
    the work on earlier chunks takes longer, right after that work.  Both account for queueing.
    """

    is_paced: bool = False
    timer: Callable[[], float] = perf_counter
    sleep: Callable[[float], None] = sleep
    _now: float = attrs.field(default=0.0, init=False)
    _began: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.timer()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.timer() - self._began if self.is_paced else self._now

    def wait_for(self, time: float) -> float:
        """Wait for *time*, unless it has passed; return the time then."""
        if self.is_paced:
            self.sleep(max(0.0, time - self.now))
        else:
            self._now = max(self._now, time)
        return self.now

    def spend(self, seconds: float) -> None:
        """Account for work that took that many seconds of real time."""
        if not self.is_paced:
            self._now += seconds


def record_stream(
    processor: OnlineProcessor,
    audio: Iterable[NDArray[np.float32] | Pause],
    *,
    chunk_seconds: float | None = 1.0,
    clock: Clock | None = None,
) -> Iterator[Event]:
    """
    Run *audio*, float32 arrays of any lengths at 16 kHz and pauses, through *processor*.

    Audio between two pauses is inserted in chunks of `chunk_seconds`, or all at once if that is
    None; after each chunk the backlog is drained.  Only calls of the processor are timed.  The
    processor is finished, not closed.

    Raises:
        BackendError: a call failed permanently, or so did all its retries.

    """
    recording = _Recording(processor, clock or Clock())
    samples = sys.maxsize if chunk_seconds is None else max(1, round(chunk_seconds * SAMPLE_RATE))
    for is_pause, stretch in groupby(audio, lambda item: isinstance(item, Pause)):
        if is_pause:
            for pause in cast("Iterator[Pause]", stretch):
                yield from recording.pause(pause.seconds)
            continue
        for chunk in rechunk(cast("Iterator[NDArray[np.float32]]", stretch), samples):
            yield from recording.take(chunk)
    yield from recording.call("finish", processor.finish)
    yield from recording.show()
    yield End(audio_time=recording.audio_time, wall=recording.clock.now)


@attrs.define
class _Recording:
    """The state of `record_stream`."""

    processor: OnlineProcessor
    clock: Clock
    _samples: int = 0  #: inserted, or skipped by pauses
    _shown: tuple[TimedText, ...] = ()
    _processed_up_to: float = -1.0

    @property
    def audio_time(self) -> float:
        return self._samples / SAMPLE_RATE

    def take(self, chunk: NDArray[np.float32]) -> Iterator[Event]:
        """Insert one chunk when it is due and drain the processor."""
        self._samples += len(chunk)
        wall = self.clock.wait_for(self.audio_time)
        self.processor.insert_audio_chunk(chunk, self.audio_time)
        yield AudioIn(audio_time=self.audio_time, wall=wall, resident_bytes=resident_bytes())
        while self.processor.has_backlog:
            yield from self.call("process_iter", self.processor.process_iter)
        yield from self.show()

    def pause(self, seconds: float) -> Iterator[Event]:
        """Report a pause to the processor: flush at its start, advance the clock at its end."""
        yield from self.call("start_silence", self.processor.start_silence)
        yield from self.show()
        samples = round(seconds * SAMPLE_RATE)
        self.processor.end_silence(samples / SAMPLE_RATE)
        self._samples += samples
        self.clock.wait_for(self.audio_time)

    def call(self, kind: str, call: Callable[[], Emission]) -> Iterator[Event]:
        """Make an exclusive call, with retries; yield each attempt and the committed text."""
        for retries_left in reversed(range(1 + MAX_RETRIES)):
            before, wall, began = self.processor.stats, self.clock.now, self.clock.timer()
            try:
                emission, failure = call(), None
            except BackendError as error:
                emission, failure = None, error
            duration = self.clock.timer() - began
            self.clock.spend(duration)
            after = self.processor.stats
            if emission is not None:
                self._processed_up_to = emission.processed_up_to
            yield Call(
                kind=kind,
                audio_time=self.audio_time,
                wall=wall,
                duration=duration,
                processed_up_to=self._processed_up_to,
                stable_up_to=0.0 if emission is None else emission.stable_up_to,
                work=_work_between(before, after),
                state_bytes=after.state_bytes,
                is_failed=emission is None,
            )
            if failure is None:
                break
            if not failure.retryable or failure.is_exhausted or not retries_left:
                raise failure
        if emission is not None and emission.committed:
            tokens = _timed(emission.committed)
            yield Commit(audio_time=self.audio_time, wall=wall + duration, tokens=tokens)

    def show(self) -> Iterator[Event]:
        """Record the hypothesis if it changed."""
        tokens = _timed(self.processor.get_buffer().tokens)
        if tokens != self._shown:
            self._shown = tokens
            yield HypothesisShown(audio_time=self.audio_time, wall=self.clock.now, tokens=tokens)


def _timed(tokens: Iterable[ASRToken]) -> tuple[TimedText, ...]:
    return tuple(TimedText(token.start, token.end, token.text) for token in tokens)


def _work_between(before: StreamStats, after: StreamStats) -> WorkCounters:
    """Return the work between two readings of the counters of a stream."""
    counts: dict[str, int | None] = {}
    for field in attrs.fields(WorkCounters):
        earlier, later = getattr(before, field.name), getattr(after, field.name)
        counts[field.name] = None if later is None else later - (earlier or 0)
    return WorkCounters(**counts)
