"""A recorder around every stream of a backend that checks, after every call, what always holds."""

from __future__ import annotations

from contextlib import contextmanager
import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sessions.stream_watch import StreamWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wlk_conformance.engine_faults import EngineFaults
    from wlk_conformance.sessions.violation import Violation
    from wlk_core import BackendSpec

__all__ = ["Monitor", "MonitoredProcessor", "Span"]


@attrs.define
class Span:
    """The time of one call: the engine calls in it, where no other call overlapped it."""

    call: str
    stream: str
    is_alone: bool
    entered: int
    engine_before: int
    made: int = 0  #: engine calls
    fired: int = 0  #: engine calls that failed on request


class Monitor:
    """
    The streams of one backend, and what was found in them.

    Violations are collected and never raised, so that the test that runs is judged by its own
    rule.  Any thread may call.
    """

    def __init__(self, spec: BackendSpec, engine_calls: EngineFaults | None) -> None:
        self.spec = spec
        self.engine_calls = engine_calls
        self.violations: list[Violation] = []
        self._watches: list[StreamWatch] = []
        self._open: dict[int, Span] = {}  # by thread
        self._entered = 0
        self._lock = threading.Lock()

    @property
    def pending(self) -> Span | None:
        """The call that was entered last and has not returned."""
        with self._lock:
            return next(reversed(self._open.values()), None)

    def watch(self, processor: Any, name: str, language: str | None) -> MonitoredProcessor:
        """Return *processor*, monitored; *language* is the one that it is forced to."""
        watch = StreamWatch(name, self.spec, language, self.report)
        self._watches.append(watch)
        return MonitoredProcessor(processor, watch, self)

    def report(self, violation: Violation) -> None:
        """Keep the first violation of each stream, because the next ones may follow from it."""
        others = {watch.language for watch in self._watches if watch.name != violation.stream}
        is_other = any(
            f"reported as {language!r}" in violation.message for language in others if language
        )
        if violation.rule == "LANG-01" and is_other:
            # The language of another stream, unless the stream reports it without that one too.
            violation = attrs.evolve(violation, rule="ISO-05", kind="language")
        elif violation.rule == "LANG-01":
            violation = attrs.evolve(violation, kind="language")
        with self._lock:
            if all(known.stream != violation.stream for known in self.violations):
                self.violations.append(violation)

    def settle(self) -> None:
        """Compare every token with what it was when it was returned."""
        for watch in self._watches:
            watch.verify()
        self._watches.clear()

    @contextmanager
    def span(self, call: str, stream: str) -> Iterator[Span]:
        """Count the engine calls of a block."""
        calls = self.engine_calls
        thread = threading.get_ident()
        with self._lock:
            self._entered += 1
            before = 0 if calls is None else calls.count
            span = Span(call, stream, not self._open, self._entered, before)
            outer = self._open.get(thread)
            self._open[thread] = span
        try:
            yield span
        finally:
            self._close(span, thread, outer)

    def _close(self, span: Span, thread: int, outer: Span | None) -> None:
        calls = self.engine_calls
        with self._lock:
            if outer is None:
                del self._open[thread]
            else:
                self._open[thread] = outer
            span.is_alone = span.is_alone and self._entered == span.entered
            if calls is None or not span.is_alone:
                return
            span.made = calls.count - span.engine_before
            failing = calls.fail_before | calls.fail_after
            span.fired = sum(span.engine_before < call <= calls.count for call in failing)


class MonitoredProcessor:
    """An online processor whose calls are checked; it returns and raises what the other does."""

    def __init__(self, processor: Any, watch: StreamWatch, monitor: Monitor) -> None:
        self._processor = processor
        self._watch = watch
        self._monitor = monitor

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the processor; a speaker turn is checked where there are turns."""
        value = getattr(self._processor, name)
        if name != "new_speaker":
            return value

        def new_speaker(change: Any) -> Any:
            self._watch.turn(change)
            return self._emitting("new_speaker", lambda: value(change))

        return new_speaker

    @property
    def stats(self) -> Any:
        """The counters of the processor."""
        return self._processor.stats

    def insert_audio_chunk(self, audio: Any, audio_stream_end_time: Any = None) -> None:
        """Insert the chunk, and check the clock and that no model runs."""
        arguments = (audio,) if audio_stream_end_time is None else (audio, audio_stream_end_time)
        with self._watch.insertion(audio, audio_stream_end_time) as insertion:
            with self._monitor.span("insert_audio_chunk", self._watch.name) as span:
                self._processor.insert_audio_chunk(*arguments)
            insertion.made = span.made

    def process_iter(self, is_last: bool = False) -> Any:  # noqa: FBT001, FBT002 -- pinned
        """Process, and check what came."""
        call = "is_last" if is_last else "process_iter"
        return self._emitting(call, lambda: self._processor.process_iter(is_last))

    def start_silence(self) -> Any:
        """Start a silence, and check what came."""
        return self._emitting("start_silence", self._processor.start_silence)

    def finish(self) -> Any:
        """Finish, and check what came."""
        return self._emitting("finish", self._processor.finish)

    def end_silence(self, silence_duration: Any, offset: Any = None) -> None:
        """End a silence, and move the clock."""
        arguments = (silence_duration,) if offset is None else (silence_duration, offset)
        with (
            self._watch.silence(silence_duration, has_offset=offset is not None),
            self._monitor.span("end_silence", self._watch.name),
        ):
            self._processor.end_silence(*arguments)

    def get_buffer(self) -> Any:
        """Read the hypothesis, and check it."""
        before = self._watch.reading()
        with self._monitor.span("get_buffer", self._watch.name) as span:
            shown = self._processor.get_buffer()
        self._watch.shown(shown, before, span.made)
        return shown

    def reset(self) -> None:
        """Reset, and begin anew."""
        with self._monitor.span("reset", self._watch.name):
            self._processor.reset()
        self._watch.verify()
        self._watch.begin(is_reset=True)

    def close(self) -> None:
        """Close; every token must still be what it was."""
        with self._monitor.span("close", self._watch.name):
            self._processor.close()
        self._watch.verify()
        self._watch.is_closed = True

    def _emitting(self, call: str, make: Callable[[], Any]) -> Any:
        with self._watch.entered() as entry:
            try:
                with self._monitor.span(call, self._watch.name) as span:
                    emission = make()
            except BaseException as error:
                self._watch.raised(call, error, entry, span)
                raise
            self._watch.returned(call, emission, entry, span, lambda: self._processor.stats)
        return emission
