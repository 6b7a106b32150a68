"""What a monitor knows about one stream, and the checks of its calls."""

from __future__ import annotations

from contextlib import contextmanager
import math
import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sessions.clock import StreamClock
from wlk_conformance.sessions.invariants.reports import FLUSHES, Counters, Failures, ReportedTimes
from wlk_conformance.sessions.invariants.tokens import CommittedTokens, Speakers, check_hypothesis
from wlk_conformance.sessions.violation import Violation
from wlk_core import SAMPLE_RATE, Emission
from wlk_core.errors import AudioFormatError, BackendError, WLKError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wlk_conformance.sessions.monitor import Span
    from wlk_core import BackendSpec

__all__ = ["Entry", "Insertion", "Reading", "StreamWatch"]


@attrs.define
class Entry:
    """The state of a stream when an exclusive call began."""

    audio_time: float
    samples: int
    inserts: int
    is_finished: bool
    is_closed: bool
    is_overlapped: bool


@attrs.define
class Insertion:
    """One insert; `made` is the number of engine calls in it."""

    made: int = 0


@attrs.define
class Reading:
    """The state of a stream when its hypothesis was read."""

    committed_end: float | None
    is_flushed: bool
    calls: int


class StreamWatch:
    """The calls of one stream; each check passes its violations to `report`."""

    def __init__(
        self,
        name: str,
        spec: BackendSpec,
        language: str | None,
        report: Callable[[Violation], None],
    ) -> None:
        self.name = name
        self.is_closed = False
        self._spec = spec
        self.language = language
        self._report = report
        self._running = 0  # exclusive calls
        self._calls = 0  # of any kind that can change the hypothesis
        self._inserts = 0  # begun
        self._lock = threading.Lock()
        self.begin()

    def begin(self, *, is_reset: bool = False) -> None:
        """Begin, at the opening or at a reset."""
        self.clock = StreamClock()
        self._tokens = CommittedTokens(self._spec, self.language)
        self._times = ReportedTimes()
        self._speakers = Speakers(is_reset=is_reset)
        self._counters = Counters()
        self._failures = Failures()
        self._is_finished = False
        self._was_failed = False  # the exclusive call before this one raised BackendError
        self._is_flushed = True  # no audio since the last flush

    def verify(self) -> None:
        """Compare every token with what it was."""
        self._take(self._tokens.verify(is_whole=True))
        self._take(self._times.settle())

    @contextmanager
    def insertion(self, audio: Any, end_time: Any) -> Iterator[Insertion]:
        """Move the clock before the insert, because a step may take it at once; back if refused."""
        samples = len(audio) if hasattr(audio, "__len__") else 0
        has_time = isinstance(end_time, (int, float)) and not isinstance(end_time, bool)
        with self._lock:
            self._inserts += 1
            gap = self.clock.gap_before(samples, end_time) if has_time else 0.0
            before = self.clock
            if gap > 0:
                self.clock = _moved(before, gap)
            self.clock.add_audio(samples)
            was_flushed, self._is_flushed = self._is_flushed, self._is_flushed and not samples
        insertion = Insertion()
        state = (self._is_finished, self.is_closed)
        try:
            yield insertion
        except BaseException as error:
            with self._lock:
                self.clock.add_audio(-samples)
                self.clock = before
                self._is_flushed = was_flushed
            self._times.moved("IN-02" if isinstance(error, AudioFormatError) else "IN-03")
            raise
        if any(state):
            rule, when = ("LIFE-10", "close()") if state[1] else ("LIFE-04", "finish()")
            self._violation(rule, f"insert_audio_chunk was accepted after {when}")
        if gap < 0:
            self._violation("IN-03", f"a chunk that overlaps {-gap:.3f} s of audio was accepted")
        if end_time is not None:
            self._times.moved("IN-03")
        if insertion.made:
            self._violation("IN-04", f"insert_audio_chunk made {insertion.made} engine calls")

    @contextmanager
    def silence(self, seconds: Any, *, has_offset: bool) -> Iterator[None]:
        """Move the clock once the silence was accepted."""
        with self._entering():
            try:
                yield
            except WLKError:
                self._times.moved("SIL-03")
                raise
            if not 0 <= seconds < math.inf:
                self._violation("SIL-03", f"end_silence({seconds!r}) was accepted")
                return
            self.clock.add_pause(float(seconds), rule="SIL-03" if has_offset else "SIL-05")
            self._times.moved("SIL-03")

    def turn(self, change: Any) -> None:
        """Note a speaker turn; `new_speaker` returns tokens by it."""
        if hasattr(change, "start"):
            self._speakers.turn(change)

    def reading(self) -> Reading:
        """Return what a hypothesis that is read now must follow."""
        with self._lock:
            is_flushed = self._is_flushed and not self._running
            return Reading(self._tokens.end, is_flushed, self._calls)

    def shown(self, shown: Any, before: Reading, made: int) -> None:
        """Check a hypothesis."""
        with self._lock:
            is_flushed = before.is_flushed and self._is_flushed and before.calls == self._calls
        if made:
            self._violation("HYP-01", f"get_buffer made {made} engine calls")
        self._take(
            check_hypothesis(
                shown,
                self._spec,
                self.language,
                committed_end=before.committed_end,
                audio_time=self.clock.end,
                is_flushed=is_flushed,
            )
        )

    @contextmanager
    def entered(self) -> Iterator[Entry]:
        """Note that an exclusive call that returns an emission begins."""
        with self._entering() as entry:
            yield entry

    def raised(self, call: str, error: BaseException, entry: Entry, span: Span) -> None:
        """Check an exclusive call that raised."""
        del entry
        self._was_failed = isinstance(error, BackendError)
        self._take(self._failures.raised(call, error, span.fired, made=span.made))

    def returned(
        self, call: str, emission: Any, entry: Entry, span: Span, read_stats: Callable[[], Any]
    ) -> None:
        """Check an exclusive call that returned."""
        if entry.is_overlapped:
            return
        if entry.is_closed:
            self._violation("LIFE-10", f"{call} was accepted after close()")
            return
        if entry.is_finished and call != "finish":
            self._violation("LIFE-04", f"{call} was accepted after finish()")
            return
        if not isinstance(emission, Emission):
            kind = type(emission).__name__
            self._violation("COM-01", f"{call} returned a {kind}, expected an Emission")
            return
        if call == "finish" and span.made and (entry.is_finished or not entry.samples):
            rule = "LIFE-03" if entry.is_finished else "LIFE-05"
            what = "a second finish" if entry.is_finished else "finish without audio"
            self._violation(rule, f"{what} made {span.made} engine calls")
        was_failed, self._was_failed = self._was_failed, False
        self._take(self._failures.returned(call, span.fired))
        has_audio = not self._is_flushed or self._inserts != entry.inserts
        self._count(call, emission, entry, span, read_stats)
        self._take(self._tokens.verify())
        self._take(self._tokens.take(emission, call, self.clock, has_audio=has_audio))
        self._take(self._speakers.take(emission, call))
        times = self._times.take(emission, call, before=entry.audio_time, now=self.clock.end)
        self._take(times, rule="ERR-01" if span.fired else "ERR-02" if was_failed else None)
        with self._lock:
            self._is_finished = self._is_finished or call == "finish"
            if call in FLUSHES and self._inserts == entry.inserts:
                self._is_flushed = True

    def _count(
        self,
        call: str,
        emission: Emission,
        entry: Entry,
        span: Span,
        read_stats: Callable[[], Any],
    ) -> None:
        """Check the counters after *call*."""
        samples = self.clock.samples
        stats = read_stats()
        tokens = len(emission.committed)
        self._take(self._counters.take(stats, call, made=span.made - span.fired, tokens=tokens))
        if self._inserts == entry.inserts and not self.is_closed:
            seconds = samples / SAMPLE_RATE
            self._take(self._times.counted(call, stats.audio_seconds, seconds))

    @contextmanager
    def _entering(self) -> Iterator[Entry]:
        with self._lock:
            entry = Entry(
                audio_time=self.clock.end,
                samples=self.clock.samples,
                inserts=self._inserts,
                is_finished=self._is_finished,
                is_closed=self.is_closed,
                is_overlapped=self._running > 0,
            )
            self._running += 1
            self._calls += 1
        try:
            yield entry
        finally:
            with self._lock:
                self._running -= 1

    def _violation(self, rule: str, message: str) -> None:
        self._report(Violation(rule, message, stream=self.name))

    def _take(self, violations: Iterator[Violation], *, rule: str | None = None) -> None:
        for violation in violations:
            self._report(attrs.evolve(violation, stream=self.name, rule=rule or violation.rule))


def _moved(clock: StreamClock, gap: float) -> StreamClock:
    """Return a copy of *clock* after a silence of *gap* seconds."""
    moved = clock.copy()
    moved.add_pause(gap, rule="IN-03")
    return moved
