"""Monitor the streams of a backend: check after every call what must always hold."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
import math
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_conformance.calls import NO_WAIT
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.sessions.generated_session import FLUSHES, Violation
from wlk_conformance.sessions.life_cycle import ROUNDING, CommittedTokens, LifeCycle, Speakers
from wlk_conformance.sessions.reports import Counters, EngineWork, Failures, ReportedTimes
from wlk_conformance.stalls import timed
from wlk_core import SAMPLE_RATE, Emission
from wlk_core.errors import AudioFormatError, StreamBroken, WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wlk_conformance.calls import CallLog, Calls
    from wlk_conformance.sessions.life_cycle import StreamClock
    from wlk_core import Backend, BackendSpec


#: The rules that a call breaks if it is accepted after the call that ended the stream.
ACCEPTED_AFTER = {"finish()": "LIFE-04", "close()": "LIFE-10"}


@attrs.frozen(kw_only=True)
class _CallStart:
    """The state of a stream when an exclusive call began."""

    clock: StreamClock
    inserts: int  #: number of inserts that had begun
    ended_by: str | None  #: the call that had ended the stream, a key of ACCEPTED_AFTER
    is_overlapping: bool  #: another exclusive call was running


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
        self._running = 0  # calls in progress, of any stream
        self._begun = 0  # calls so far, of any stream
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
            violation = self._attribute_language(violation)
        with self._lock:
            if all(known.stream != violation.stream for known in self.violations):
                self.violations.append(violation)

    def _attribute_language(self, violation: Violation) -> Violation:
        """Return a violation of LANG-01, as one of ISO-05 if another stream has the language."""
        rule = "LANG-01"
        for stream in self._streams:
            is_reported = f"reported as {stream.language!r}" in violation.message
            if stream.name != violation.stream and stream.language and is_reported:
                rule = "ISO-05"
        return attrs.evolve(violation, rule=rule, kind="language")

    def settle(self) -> None:
        """Compare every token with what it was when returned."""
        for stream in self._streams:
            stream.verify()
        self._streams.clear()

    @contextmanager
    def counting(self) -> Iterator[EngineWork]:
        """Count the engine calls of a block, which are known once it has ended."""
        engine, work = self.engine_calls, EngineWork()
        with self._lock:
            self._running += 1
            self._begun += 1
            begun = self._begun
            is_alone = self._running == 1
            count_before, raised_before = (
                (0, 0) if engine is None else (engine.count, engine.raised)
            )
        try:
            yield work
        finally:
            with self._lock:
                self._running -= 1
                was_alone = is_alone and self._begun == begun
                if engine is not None and was_alone:
                    work.made = engine.count - count_before
                    failing = engine.fail_before | engine.fail_after
                    work.faults = sum(count_before < call <= engine.count for call in failing)
                    work.raised = engine.raised - raised_before


class MonitoredProcessor:
    """
    An online processor whose calls are recorded and checked, and noted in *log* if there is one.

    They return and raise what those of the processor do, except for Escaped; see Calls.
    `life_cycles` has a record from the opening on, and one from each reset on.
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
        self.life_cycles: list[LifeCycle] = []
        self._processor = processor
        self._monitor = monitor
        self._log = log
        self._is_closed = False
        self._running = 0  # exclusive calls in progress
        self._calls = 0  # exclusive calls so far, which may change the hypothesis
        self._inserts = 0  # inserts that have begun
        self._lock = threading.Lock()
        self._begin()

    def _begin(self, *, is_reset: bool = False) -> None:
        self.life_cycle = LifeCycle()
        self.life_cycles.append(self.life_cycle)
        self.times = ReportedTimes()
        self._tokens = CommittedTokens(self.life_cycle, self._monitor.spec, self.language)
        self._speakers = Speakers(is_reset=is_reset)
        self._counters = Counters(self._monitor.calls.known_seconds)
        self._failures = Failures()
        self._has_new_audio = False  # audio was inserted since the last flush

    @property
    def _ended_by(self) -> str | None:
        """The call that ended the stream, a key of ACCEPTED_AFTER; None while it is open."""
        if self._is_closed:
            return "close()"
        return "finish()" if self.life_cycle.is_complete else None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the processor, with a check around `new_speaker`."""
        with self._monitor.calls.recorded(name, self.name):
            value = getattr(self._processor, name)
        return self._new_speaker if name == "new_speaker" else value

    def _new_speaker(self, change: Any) -> Any:
        with ExitStack() as failed:
            if hasattr(change, "start"):
                self._speakers.turns.append(change)
                failed.callback(self._speakers.turns.remove, change)
            emission = self._emitting("new_speaker", change)
            failed.pop_all()  # a call that fails changes nothing
        return emission

    def insert_audio_chunk(self, audio: Any, audio_stream_end_time: Any = None) -> None:
        """Insert the chunk, and check the clock and that the engine is not called."""
        end_time, life_cycle = audio_stream_end_time, self.life_cycle
        samples = len(audio) if hasattr(audio, "__len__") else 0
        has_time = isinstance(end_time, (int, float)) and not isinstance(end_time, bool)
        ended_by = self._ended_by
        # The clock moves before the insert, because a step on another thread may take the audio at
        # once, and it moves back if the chunk is refused.
        with self._lock:
            self._inserts += 1
            clock, had_new_audio = life_cycle.clock, self._has_new_audio
            gap = clock.gap_before(samples, end_time) if has_time else 0.0
            life_cycle.clock = clock.after(pause=gap, samples=samples, rule="IN-03")
            self._has_new_audio = had_new_audio or samples > 0
        original = audio.copy() if isinstance(audio, np.ndarray) else None
        try:
            with self._monitor.counting() as work:
                self._call("insert_audio_chunk", audio, *_unless_none(end_time))
        except BaseException as error:
            with self._lock:
                life_cycle.clock, self._has_new_audio = clock, had_new_audio
            self.times.moved("IN-02" if isinstance(error, AudioFormatError) else "IN-03")
            raise
        if ended_by is not None:
            self._accepted("insert_audio_chunk", ended_by)
        if original is not None and (original.ndim, original.dtype) == (1, np.float32):
            with self._lock:
                self._counters.insert(original)
        if gap < 0:
            self._violation("IN-03", f"a chunk that overlaps {-gap:.3f} s of audio was accepted")
        if end_time is not None:
            self.times.moved("IN-03")
        if work.made:
            self._violation("IN-04", f"insert_audio_chunk made {work.made} engine calls")
        if original is not None and not np.array_equal(original, audio, equal_nan=True):
            self._violation("IN-04", "insert_audio_chunk changed the samples of its caller's array")

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
        with self._exclusive(), self._monitor.counting():
            try:
                self._call("end_silence", silence_duration, *_unless_none(offset))
            except WLKError:
                self.times.moved("SIL-03")
                raise
            if not 0 <= silence_duration < math.inf:
                self._violation("SIL-03", f"end_silence({silence_duration!r}) was accepted")
                return
            rule = "SIL-05" if offset is None else "SIL-03"
            with self._lock:
                clock = self.life_cycle.clock
                self.life_cycle.clock = clock.after(pause=float(silence_duration), rule=rule)
            self.times.moved("SIL-03")

    def get_buffer(self) -> Any:
        """Read the hypothesis, and check it."""
        with self._lock:
            committed_end, calls = self._tokens.end, self._calls
            must_be_empty = not self._has_new_audio and not self._running
        with self._monitor.counting() as work:
            shown = self._call("get_buffer")
        with self._lock:
            is_unchanged = not self._has_new_audio and self._calls == calls
        if work.made:
            self._violation("HYP-01", f"get_buffer made {work.made} engine calls")
        self._take(
            self._tokens.check_shown(
                shown, committed_end=committed_end, is_flushed=must_be_empty and is_unchanged
            )
        )
        self.life_cycle.read(shown.tokens)
        return shown

    def reset(self) -> None:
        """Reset, and begin a new life cycle."""
        with self._monitor.counting():
            self._call("reset")
        self.verify()
        self._begin(is_reset=True)

    def close(self) -> None:
        """Close, which must not wait, and compare every token with what it was."""
        is_idle = not self._running
        with self._monitor.counting(), timed(NO_WAIT) as closing:
            self._call("close")
        if is_idle and not closing.is_in_time:
            when = " after a call that failed" if self._failures.has_just_failed else ""
            text = f"close(){when} took more than {NO_WAIT:g} s"
            self._monitor.report(Violation("LIFE-10", text, "blocked", self.name))
        self.verify()
        self._is_closed = True

    def verify(self) -> None:
        """Compare every token with what it was."""
        self._take(self._tokens.verify(is_whole=True))
        self._take(self.times.settle())

    def _call(self, name: str, *args: Any) -> Any:
        """Make a call of the processor, and record and note it."""
        called = _called(name, args)
        # As callers write them: process_iter() and process_iter(is_last=True).
        named = {"is_last": True} if called == "is_last" else {}
        given = () if name == "process_iter" else args
        try:
            with self._monitor.calls.recorded(called, self.name):
                result = getattr(self._processor, name)(*given, **named)
        except Exception as error:
            self._note(name, args, f" raised {type(error).__name__}: {error}")
            raise
        if name != "get_buffer":
            self._note(name, args, result)
        return result

    def _note(self, name: str, args: tuple[Any, ...], result: object) -> None:
        if self._log is not None:
            self._log.note(name, args, result)

    def _emitting(self, name: str, *args: Any) -> Any:
        """Make an exclusive call that returns an emission, and check what it returns or raises."""
        call = _called(name, args)
        with self._exclusive() as start:
            try:
                with self._monitor.counting() as work:
                    emission = self._call(name, *args)
            except BaseException as error:
                self._take(self._failures.raised(call, error, work))
                if isinstance(error, StreamBroken) and not self.life_cycle.is_broken:
                    self.life_cycle.is_broken = True
                    self._tokens.keep(error.committed)
                raise
            if not start.is_overlapping:
                self._returned(call, emission, start, work)
        return emission

    def _returned(self, call: str, emission: Any, start: _CallStart, work: EngineWork) -> None:
        """Check what *call* returned, and note it."""
        may_follow_end = call == "finish" and start.ended_by == "finish()"
        if start.ended_by is not None and not may_follow_end:
            self._accepted(call, start.ended_by)
        elif isinstance(emission, Emission):
            self._emitted(call, emission, start, work)
        else:
            kind = type(emission).__name__
            self._violation("COM-01", f"{call} returned a {kind}, expected an Emission")

    def _emitted(self, call: str, emission: Emission, start: _CallStart, work: EngineWork) -> None:
        if call == "finish":
            self._check_work_of_finish(start, work)
        is_retry = self._failures.has_just_failed
        self._take(self._failures.returned(call, work.faults))
        has_audio = self._has_new_audio or self._has_inserts_since(start)
        samples, stats = self.life_cycle.clock.samples, self.stats
        made, tokens = work.made - work.faults, len(emission.committed)
        if call == "process_iter" and samples and not is_retry:
            self._check_idle(start, made=made, tokens=tokens)
        self._take(self._counters.take(stats, call, made=made, tokens=tokens))
        if not self._has_inserts_since(start) and not self._is_closed:
            self._take(self.times.counted(call, stats.audio_seconds, samples / SAMPLE_RATE))
        self._take(self._tokens.verify())
        self._take(self._tokens.take(emission, call, has_audio=has_audio))
        self._take(self._speakers.take(emission, call))
        now = self.life_cycle.clock.end
        rule = None  # that of a wrong time, unless a failure explains it
        if work.faults:
            rule = "ERR-01"
        elif is_retry:
            rule = "ERR-02"
        before = start.clock.end
        times = self.times.take(emission, call, before=before, now=now, rule=rule)
        self._take(times, rule=rule)
        with self._lock:
            if call == "finish":
                self.life_cycle.is_complete = True
            if call in FLUSHES:
                self.life_cycle.cuts.append(start.clock.samples)
                if not self._has_inserts_since(start):
                    self._has_new_audio = False

    def _check_work_of_finish(self, start: _CallStart, work: EngineWork) -> None:
        """Report engine calls of a finish that has nothing to decode."""
        if not work.made:
            return
        text = f"made {work.made} engine calls"
        if start.ended_by == "finish()":
            self._violation("LIFE-03", f"a second finish {text}")
        elif not start.clock.samples:
            self._violation("LIFE-05", f"finish without audio {text}")

    def _check_idle(self, start: _CallStart, *, made: int, tokens: int) -> None:
        """Report a process_iter that did something although all audio was decoded before it."""
        is_decoded = self.times.processed >= start.clock.end - ROUNDING
        # Tokens show that the model ran if its engine calls cannot be counted.
        has_run = tokens if self._monitor.engine_calls is None else made
        if is_decoded and has_run and not self._has_inserts_since(start):
            self._violation(
                "TIME-03",
                f"processed_up_to was {self.times.processed:.3f} s, the end of the audio, but the "
                f"next process_iter made {made} engine calls and committed {tokens} tokens",
            )

    def _has_inserts_since(self, start: _CallStart) -> bool:
        """Return whether audio was inserted since the call that began with *start*."""
        return self._inserts != start.inserts

    @contextmanager
    def _exclusive(self) -> Iterator[_CallStart]:
        """Count a running exclusive call."""
        with self._lock:
            start = _CallStart(
                clock=self.life_cycle.clock,
                inserts=self._inserts,
                ended_by=self._ended_by,
                is_overlapping=self._running > 0,
            )
            self._running += 1
            self._calls += 1
        try:
            yield start
        finally:
            with self._lock:
                self._running -= 1

    def _accepted(self, call: str, ended_by: str) -> None:
        """Report that *call* was accepted after the call that ended the stream."""
        self._violation(ACCEPTED_AFTER[ended_by], f"{call} was accepted after {ended_by}")

    def _violation(self, rule: str, message: str) -> None:
        self._monitor.report(Violation(rule, message, stream=self.name))

    def _take(self, violations: Iterator[Violation], *, rule: str | None = None) -> None:
        for violation in violations:
            self._monitor.report(
                attrs.evolve(violation, stream=self.name, rule=rule or violation.rule)
            )


def _called(name: str, args: tuple[Any, ...]) -> str:
    return "is_last" if name == "process_iter" and any(args) else name


def _unless_none(argument: Any) -> tuple[Any, ...]:
    """Return the arguments of a call whose last one may be left out."""
    return () if argument is None else (argument,)
