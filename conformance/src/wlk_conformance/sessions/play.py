"""Play a generated session: make its calls on a backend, and collect the violations."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
import math
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.calls import NO_WAIT, RULES_OF_CALLS, STUCK, ends_within, in_thread, while_held
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.interfaces import SupportsCodedAudio, SupportsHabits
from wlk_conformance.sessions.generated_session import (
    VOCABULARIES,
    Action,
    GeneratedSession,
    Violation,
    Vocabulary,
)
from wlk_conformance.sessions.monitor import Monitor
from wlk_conformance.sessions.oracle import Oracle
from wlk_conformance.sessions.played_stream import PlayedStream, Unexpected, reported
from wlk_conformance.stimuli import CodedSpeech
from wlk_conformance.testing.driver import MAX_DRAIN_CALLS
from wlk_core.errors import BackendError, OptionError, StreamBroken
from wlk_core.processor import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.sessions.life_cycle import LifeCycle
    from wlk_core import Backend

CALLS = {"insert": "insert_audio_chunk", "read": "get_buffer", "process": "process_iter"}
ATTEMPTS = 6  # at a call whose engine always fails; a compliant stream breaks after four


class Player:
    """Play one generated session on one backend, and collect the first violation of each stream."""

    def __init__(self, backend: Backend, under_test: BackendUnderTest) -> None:
        self._backend = backend
        self._spec, self._source = under_test.spec, under_test.speech_source
        self._faults = EngineFaults.of_backend(backend)
        self._recorded = under_test.calls
        self._monitor = Monitor(self._spec, backend, self._recorded)
        self._streams: dict[int, PlayedStream] = {}

    @property
    def violations(self) -> list[Violation]:
        """The first violation of each stream."""
        return self._monitor.violations

    @property
    def life_cycles(self) -> dict[int, list[LifeCycle]]:
        """The life cycles of every stream, by its number."""
        return {number: stream.processor.life_cycles for number, stream in self._streams.items()}

    def play(self, session: GeneratedSession) -> Player:
        """Make every call of *session*, finish and close its streams, and judge their words."""
        if session.vocabulary and isinstance(self._backend, SupportsCodedAudio):
            self._backend.vocabulary = VOCABULARIES[session.vocabulary].words
        if isinstance(self._backend, SupportsHabits):
            self._backend.habits = frozenset(session.habits)
        try:
            for number, action in enumerate(session.actions, 1):
                self._recorded.action = number
                self._do(action, session)
            for _, stream in sorted(self._streams.items()):
                if stream.is_open:
                    self._exclusive(stream, Action(do="finish"))
                life_cycle = stream.life_cycle
                if life_cycle.is_complete and not life_cycle.is_broken and not stream.is_closed:
                    with reported("finish", rule="LIFE-03"):
                        stream.processor.finish()  # a second one, which must do nothing
        except Unexpected as unexpected:
            self._monitor.report(unexpected.violation)
        finally:
            self._recorded.action = 0
            self._close_all()
        self._monitor.settle()
        if not self.violations:
            self._judge(session)
        return self

    def _do(self, action: Action, session: GeneratedSession) -> None:
        """Make the calls of *action*, except those that the stream no longer accepts."""
        stream = self._streams.get(action.stream)
        if action.do == "open" and stream is None:
            self._open(action, session)
        elif action.do == "warmup":
            with reported("warmup"), self._recorded.recorded("warmup", "the backend"):
                self._backend.warmup()
        elif stream is not None and not stream.is_closed:
            if action.do in ("reset", "close"):
                with reported(action.do):
                    getattr(stream, action.do)()
            elif stream.is_open:
                self._do_open(action, stream)

    def _do_open(self, action: Action, stream: PlayedStream) -> None:
        if action.do in ("insert", "read", "end_silence"):
            call = CALLS.get(action.do, action.do)
            with reported(call, rule="IN-01" if action.do == "insert" else ""):
                _run(partial(getattr(stream, action.do), action), is_threaded=action.is_threaded)
        elif action.do == "refuse":
            stream.refuse(action)
        elif action.do == "drain":
            self._drain(stream)
        elif action.do == "exhaust":
            self._exhaust(stream)
        elif action.inner and self._faults is not None:
            self._hold(stream, action, self._faults)
        elif action.do != "open":
            self._exclusive(stream, action)

    def _open(self, action: Action, session: GeneratedSession) -> None:
        options, name = action.options, f"stream {action.stream}"
        with reported("create_processor", name):
            try:
                processor = self._monitor.open(name, options)
            except OptionError:
                options = {}
                processor = self._monitor.open(name, options)
        audio = session.tapes[action.stream].render(self._source).audio
        self._streams[action.stream] = PlayedStream(processor, audio, options)

    def _drain(self, stream: PlayedStream) -> None:
        """Process until there is no backlog, then once more, which must find nothing to do."""
        times = stream.processor.times
        calls = 0
        while stream.processor.has_backlog:
            self._exclusive(stream, Action(do="process"))
            calls += 1
            if calls > MAX_DRAIN_CALLS:
                error = AssertionError(f"there is still a backlog after {MAX_DRAIN_CALLS} calls")
                raise Unexpected.raised("TIME-03", "process_iter", error, stream.name)
        drained = times.processed if calls else math.inf  # a silence alone moves it at any call
        self._exclusive(stream, Action(do="process"))
        if times.processed > drained:
            self._report(
                stream,
                "TIME-03",
                f"has_backlog was False at {drained:.3f} s, but process_iter went on to "
                f"{times.processed:.3f} s",
            )
        delay = self._spec.delay_of(stream.policy)
        backlog = stream.life_cycle.clock.end - times.processed
        if delay is not None and stream.keeps_delay and backlog > delay:
            self._report(stream, "RES-03", f"the backlog is {backlog:.2f} s, declared: {delay:g} s")

    def _exclusive(self, stream: PlayedStream, action: Action) -> None:
        """Make a call whose engine calls may fail, and repeat it like a caller would."""
        if action.faults:
            stream.faults += len(action.faults)
        else:
            stream.faults = 0
        failing: AbstractContextManager[None] = nullcontext()
        if self._faults is not None:
            failing = self._faults.failing(action.faults, after=action.is_after)
        try:
            with failing:
                attempt = 1
                while not self._attempt(stream, action, is_last_attempt=attempt == ATTEMPTS):
                    attempt += 1
        finally:
            stream.may_fail = bool(action.faults)

    def _attempt(self, stream: PlayedStream, action: Action, *, is_last_attempt: bool) -> bool:
        """Make a call once; return False if it failed as requested and a caller would repeat it."""
        call = CALLS.get(action.do, action.do)
        worded = 0 if self._faults is None else self._faults.worded
        try:
            with reported(call, stream.name, passes=BackendError):
                _run(partial(stream.exclusive, action), is_threaded=action.is_threaded)
            if self._faults is not None and self._faults.worded > worded:
                stream.has_words = True
        except BackendError as error:
            is_broken = isinstance(error, StreamBroken)
            if is_broken and stream.faults > MAX_RETRIES:
                return True  # faults of earlier calls count too
            if action.is_given_up and action.faults and not stream.life_cycle.is_broken:
                return True
            is_spurious = not stream.may_fail and not action.faults
            if is_spurious or is_broken or is_last_attempt:
                rule = RULES_OF_CALLS[call]
                raise Unexpected.raised(rule, call, error, stream.name) from error
            return False
        return True

    def _exhaust(self, stream: PlayedStream) -> None:
        """Fail every engine call until the stream is broken, which it must report."""
        if self._faults is None:
            return
        stream.insert(Action(do="insert", samples=16_000))
        start = self._faults.count
        errors: list[BackendError] = []
        with self._faults.failing(range(1, 200)):
            for _ in range(ATTEMPTS):
                try:
                    with reported("exhaust", stream.name, rule="ERR-01", passes=BackendError):
                        stream.exclusive(Action(do="is_last"))
                    break
                except BackendError as error:
                    errors.append(error)
        if (failures := self._faults.count - start) == 0:
            return
        if not errors or not isinstance(errors[-1], StreamBroken):
            kinds = [type(error).__name__ for error in errors]
            self._report(
                stream,
                "ERR-03",
                f"the engine failed {failures} times in a row and the calls raised {kinds}, "
                "expected StreamBroken after three failed retries",
            )
        stream.life_cycle.is_broken = True

    def _hold(self, stream: PlayedStream, action: Action, faults: EngineFaults) -> None:
        def act() -> None:
            for inner in action.inner:
                self._while_held(stream, action, inner)

        call = CALLS.get(action.do, action.do)
        rule = RULES_OF_CALLS[call]
        calling = while_held(partial(stream.exclusive, action), act, faults.held)
        if not calling.done():
            self._report(stream, rule, f"{call} did not end within {STUCK:g} s")
        elif (error := calling.exception()) is not None:
            raise Unexpected.raised(rule, call, error, stream.name) from error

    def _while_held(self, stream: PlayedStream, action: Action, inner: Action) -> None:
        is_insert = inner.do == "insert"
        rule = "IN-04" if is_insert else "HYP-01"
        name = "insert_audio_chunk" if is_insert else "get_buffer or stats"
        calling = in_thread(partial(stream.insert if is_insert else stream.read, inner))
        if not ends_within(NO_WAIT, calling):
            message = f"{name} did not return within {NO_WAIT:g} s while {action.do} ran"
            raise Unexpected(Violation(rule, message, "blocked", stream.name))
        if (error := calling.exception()) and not (is_insert and action.do == "finish"):
            raise Unexpected.raised(rule, name, error, stream.name) from error

    def _close_all(self) -> None:
        for stream in self._streams.values():
            if not stream.is_closed:
                try:
                    with reported("close", stream.name):
                        stream.close()
                except Unexpected as unexpected:
                    self._report(stream, "LIFE-10", str(unexpected))

    def _judge(self, session: GeneratedSession) -> None:
        if not isinstance(self._source, CodedSpeech):
            return
        vocabulary = VOCABULARIES.get(session.vocabulary, Vocabulary(self._source.vocabulary))
        for number, stream in sorted(self._streams.items()):
            tape = session.tapes[number]
            if not tape.tokens:
                continue
            for life_cycle in stream.processor.life_cycles:
                oracle = Oracle(life_cycle, tape, vocabulary, session.habits)
                found = [*oracle.check_tokens()]
                # The hypotheses of an engine whose words are unknown may be guesses of its own.
                if self._faults is not None and stream.has_words:
                    # What an engine with habits may return is known exactly.
                    returned = set() if session.habits else self._faults.texts
                    found = found or [*oracle.check_readings(returned)]
                if found:
                    self._monitor.report(attrs.evolve(found[0], stream=stream.name))
                    return

    def _report(self, stream: PlayedStream, rule: str, message: str) -> None:
        self._monitor.report(Violation(rule, message, stream=stream.name))


def _run(call: Callable[[], object], *, is_threaded: bool) -> None:
    if is_threaded:
        in_thread(call).result()
    else:
        call()
