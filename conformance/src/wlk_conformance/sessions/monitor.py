"""Monitor the streams of a backend: check after every call what must always hold."""

from __future__ import annotations

from contextlib import contextmanager
import math
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.calls import NO_WAIT
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.sessions.life import ROUNDING, CommittedTokens, Life, Speakers
from wlk_conformance.sessions.reports import Counters, Failures, ReportedTimes
from wlk_conformance.sessions.session import FLUSHES, Violation
from wlk_core import SAMPLE_RATE, Emission
from wlk_core.errors import AudioFormatError, BackendError, StreamBroken, WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wlk_conformance.calls import CallLog, Calls
    from wlk_conformance.sessions.life import StreamClock
    from wlk_core import Backend, BackendSpec


@attrs.define
class _Span:
    """The engine calls made during one call, counted if no other call overlapped it."""

    made: int = 0
    fired: int = 0  #: engine calls that failed on request


@attrs.frozen(kw_only=True)
class _Entry:
    """The state of a stream when an exclusive call began."""

    clock: StreamClock
    inserts: int
    was_closed: bool
    is_overlapped: bool


class Monitor:
    """
    The streams of one backend, and the violations found in them.

    Violations are collected and never raised, so that the running test is judged by its own rule.
    Any thread may call.
    """

    def __init__(self, spec: BackendSpec, backend: Backend, calls: Calls) -> None:
        self.spec = spec
        self.calls = calls
        self.violations: list[Violation] = []
        self._backend = backend
        self.engine_calls = EngineFaults.of_backend(backend)  #: None if they are not counted
        self._streams: list[MonitoredProcessor] = []
        self._running = self._entered = 0  # calls in progress and in all, of any stream
        self._lock = threading.Lock()

    def open(
        self, name: str, arguments: Mapping[str, Any], log: CallLog | None = None
    ) -> MonitoredProcessor:
        """Open a stream whose calls are monitored, recorded, and noted in *log*."""
        with self.calls.recorded("create_processor", name):
            processor = self._backend.create_processor(**arguments)
        stream = MonitoredProcessor(processor, name, arguments.get("language"), self, log)
        self._streams.append(stream)
        return stream

    def report(self, violation: Violation) -> None:
        """Keep the first violation of each stream, because later ones may follow from it."""
        if violation.rule == "LANG-01":
            # If another stream has the reported language, that stream is suspected first.
            others = {each.language for each in self._streams if each.name != violation.stream}
            reported = (f"reported as {language!r}" for language in others if language)
            is_other = any(text in violation.message for text in reported)
            rule = "ISO-05" if is_other else "LANG-01"
            violation = attrs.evolve(violation, rule=rule, kind="language")
        with self._lock:
            if all(known.stream != violation.stream for known in self.violations):
                self.violations.append(violation)

    def settle(self) -> None:
        """Compare every token with what it was when returned."""
        for stream in self._streams:
            stream.verify()
        self._streams.clear()

    @contextmanager
    def span(self) -> Iterator[_Span]:
        """Count the engine calls of a block."""
        calls, span = self.engine_calls, _Span()
        with self._lock:
            self._running, self._entered = self._running + 1, self._entered + 1
            before, entered = 0 if calls is None else calls.count, self._entered
            is_alone = self._running == 1
        try:
            yield span
        finally:
            with self._lock:
                self._running -= 1
                if calls is not None and is_alone and self._entered == entered:
                    span.made = calls.count - before
                    failing = calls.fail_before | calls.fail_after
                    span.fired = sum(before < call <= calls.count for call in failing)


class MonitoredProcessor:
    """
    An online processor whose calls are recorded and checked, and noted in *log* if there is one.

    They return and raise what those of the processor do, except for Escaped; see Calls.  `lives`
    has a record from the opening on, and one from each reset on.
    """

    def __init__(
        self,
        processor: Any,
        name: str,
        language: str | None,
        monitor: Monitor,
        log: CallLog | None = None,
    ) -> None:
        self.name = name
        self.language = language
        self.lives: list[Life] = []
        self._processor = processor
        self._monitor = monitor
        self._log = log
        self._is_closed = False
        self._running = 0  # exclusive calls in progress
        self._calls = 0  # calls that may change the hypothesis
        self._inserts = 0  # inserts that have begun
        self._lock = threading.Lock()
        self._begin()

    def _begin(self, *, is_reset: bool = False) -> None:
        self.life = Life()
        self.lives.append(self.life)
        self.times = ReportedTimes()
        self._tokens = CommittedTokens(self.life, self._monitor.spec, self.language)
        self._speakers = Speakers(is_reset=is_reset)
        self._counters = Counters()
        self._failures = Failures()
        self._was_failed = False  # the exclusive call before this one raised BackendError
        self._is_flushed = True  # no audio since the last flush

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the processor, with a check around `new_speaker`."""
        with self._monitor.calls.recorded(name, self.name):
            value = getattr(self._processor, name)
        return self._new_speaker if name == "new_speaker" else value

    def _new_speaker(self, change: Any) -> Any:
        if hasattr(change, "start"):
            self._speakers.turns.append(change)
        return self._emitting("new_speaker", change)

    def insert_audio_chunk(self, audio: Any, audio_stream_end_time: Any = None) -> None:
        """Insert the chunk, and check the clock and that the engine is not called."""
        end_time, life = audio_stream_end_time, self.life
        samples = len(audio) if hasattr(audio, "__len__") else 0
        has_time = isinstance(end_time, (int, float)) and not isinstance(end_time, bool)
        # The clock moves before the insert, because a step on another thread may take the audio at
        # once, and it moves back if the chunk is refused.
        with self._lock:
            self._inserts += 1
            before, was_flushed = life.clock, self._is_flushed
            gap = before.gap_before(samples, end_time) if has_time else 0.0
            life.clock = before.after(pause=gap, samples=samples, rule="IN-03")
            self._is_flushed = was_flushed and not samples
        is_finished, is_closed = life.is_complete, self._is_closed
        try:
            with self._monitor.span() as span:
                self._call("insert_audio_chunk", audio, *_given(end_time))
        except BaseException as error:
            with self._lock:
                life.clock, self._is_flushed = before, was_flushed
            self.times.moved("IN-02" if isinstance(error, AudioFormatError) else "IN-03")
            raise
        if is_closed or is_finished:
            rule, when = ("LIFE-10", "close()") if is_closed else ("LIFE-04", "finish()")
            self._violation(rule, f"insert_audio_chunk was accepted after {when}")
        if gap < 0:
            self._violation("IN-03", f"a chunk that overlaps {-gap:.3f} s of audio was accepted")
        if end_time is not None:
            self.times.moved("IN-03")
        if span.made:
            self._violation("IN-04", f"insert_audio_chunk made {span.made} engine calls")

    def process_iter(self, is_last: bool = False) -> Any:  # noqa: FBT001, FBT002 -- pinned
        """Process, and check the emission."""
        return self._emitting("process_iter", is_last)

    def start_silence(self) -> Any:
        """Start a silence, and check the emission."""
        return self._emitting("start_silence")

    def finish(self) -> Any:
        """Finish, and check the emission."""
        return self._emitting("finish")

    def end_silence(self, silence_duration: Any, offset: Any = None) -> None:
        """End a silence, and move the clock if it is accepted."""
        with self._entered(), self._monitor.span():
            try:
                self._call("end_silence", silence_duration, *_given(offset))
            except WLKError:
                self.times.moved("SIL-03")
                raise
            if not 0 <= silence_duration < math.inf:
                self._violation("SIL-03", f"end_silence({silence_duration!r}) was accepted")
                return
            rule = "SIL-05" if offset is None else "SIL-03"
            with self._lock:
                self.life.clock = self.life.clock.after(pause=float(silence_duration), rule=rule)
            self.times.moved("SIL-03")

    def get_buffer(self) -> Any:
        """Read the hypothesis, and check it."""
        with self._lock:
            committed_end, calls = self._tokens.end, self._calls
            was_flushed = self._is_flushed and not self._running
        with self._monitor.span() as span:
            shown = self._call("get_buffer")
        with self._lock:
            is_flushed = was_flushed and self._is_flushed and calls == self._calls
        if span.made:
            self._violation("HYP-01", f"get_buffer made {span.made} engine calls")
        self._take(
            self._tokens.check_shown(shown, committed_end=committed_end, is_flushed=is_flushed)
        )
        self.life.read(shown.tokens)
        return shown

    def reset(self) -> None:
        """Reset, and begin a new life."""
        with self._monitor.span():
            self._call("reset")
        self.verify()
        self._begin(is_reset=True)

    def close(self) -> None:
        """Close, which must not wait, and compare every token with what it was."""
        was_failed, is_idle, began = self._was_failed, not self._running, monotonic()
        with self._monitor.span():
            self._call("close")
        if is_idle and (spent := monotonic() - began) > NO_WAIT:
            when = " after a call that failed" if was_failed else ""
            text = f"close(){when} took {spent:.1f} s, expected {NO_WAIT:g} s at most"
            self._monitor.report(Violation("LIFE-10", text, "blocked", self.name))
        self.verify()
        self._is_closed = True

    def verify(self) -> None:
        """Compare every token with what it was."""
        self._take(self._tokens.verify(is_whole=True))
        self._take(self.times.settle())

    def _call(self, name: str, *args: Any) -> Any:
        """Make a call of the processor, and record and note it."""
        note = (lambda *_: None) if self._log is None else self._log.note
        try:
            with self._monitor.calls.recorded(_called(name, args), self.name):
                result = getattr(self._processor, name)(*args)
        except Exception as error:
            note(name, args, f" raised {type(error).__name__}: {error}")
            raise
        if name != "get_buffer":
            note(name, args, result)
        return result

    def _emitting(self, name: str, *args: Any) -> Any:
        """Make an exclusive call that returns an emission, and check what it returns or raises."""
        call = _called(name, args)
        with self._entered() as entry:
            try:
                with self._monitor.span() as span:
                    emission = self._call(name, *args)
            except BaseException as error:
                self._was_failed = isinstance(error, BackendError)
                self._take(self._failures.raised(call, error, span.fired, made=span.made))
                if isinstance(error, StreamBroken) and not self.life.is_broken:
                    self.life.is_broken = True
                    self._tokens.keep(error.committed)
                raise
            if not entry.is_overlapped:
                self._returned(call, emission, entry, span)
        return emission

    def _returned(self, call: str, emission: Any, entry: _Entry, span: _Span) -> None:
        life = self.life
        if entry.was_closed:
            self._violation("LIFE-10", f"{call} was accepted after close()")
            return
        if life.is_complete and call != "finish":
            self._violation("LIFE-04", f"{call} was accepted after finish()")
            return
        if not isinstance(emission, Emission):
            kind = type(emission).__name__
            self._violation("COM-01", f"{call} returned a {kind}, expected an Emission")
            return
        if call == "finish" and span.made and (life.is_complete or not entry.clock.samples):
            rule = "LIFE-03" if life.is_complete else "LIFE-05"
            what = "a second finish" if life.is_complete else "finish without audio"
            self._violation(rule, f"{what} made {span.made} engine calls")
        was_failed, self._was_failed = self._was_failed, False
        self._take(self._failures.returned(call, span.fired))
        is_quiet = self._inserts == entry.inserts  # nothing was inserted during the call
        has_audio = not self._is_flushed or not is_quiet
        samples, stats = life.clock.samples, self.stats
        made, tokens = span.made - span.fired, len(emission.committed)
        is_done = is_quiet and samples and self.times.processed >= entry.clock.end - ROUNDING
        more = tokens if self._monitor.engine_calls is None else made
        if is_done and more and not was_failed and call == "process_iter":
            self._violation(
                "TIME-03",
                f"processed_up_to was {self.times.processed:.3f} s, the end of the audio, but the "
                f"next process_iter made {made} engine calls and committed {tokens} tokens",
            )
        self._take(self._counters.take(stats, call, made=made, tokens=tokens))
        if self._inserts == entry.inserts and not self._is_closed:
            self._take(self.times.counted(call, stats.audio_seconds, samples / SAMPLE_RATE))
        self._take(self._tokens.verify())
        self._take(self._tokens.take(emission, call, has_audio=has_audio))
        self._take(self._speakers.take(emission, call))
        times = self.times.take(emission, call, before=entry.clock.end, now=life.clock.end)
        self._take(times, rule="ERR-01" if span.fired else "ERR-02" if was_failed else None)
        with self._lock:
            life.is_complete = life.is_complete or call == "finish"
            if call in FLUSHES:
                life.cuts.append(entry.clock.samples)
                self._is_flushed = self._is_flushed or self._inserts == entry.inserts

    @contextmanager
    def _entered(self) -> Iterator[_Entry]:
        with self._lock:
            entry = _Entry(
                clock=self.life.clock,
                inserts=self._inserts,
                was_closed=self._is_closed,
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
        self._monitor.report(Violation(rule, message, stream=self.name))

    def _take(self, violations: Iterator[Violation], *, rule: str | None = None) -> None:
        for violation in violations:
            self._monitor.report(
                attrs.evolve(violation, stream=self.name, rule=rule or violation.rule)
            )


def _called(name: str, args: tuple[Any, ...]) -> str:
    return "is_last" if name == "process_iter" and any(args) else name


def _given(option: Any) -> tuple[Any, ...]:
    return () if option is None else (option,)
