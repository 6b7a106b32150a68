"""Play a session: make its calls on a backend, and return what was found."""

from __future__ import annotations

from functools import partial
from itertools import chain
import math
import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.calls import Calls, GuardedProcessor, ThreadedCall
from wlk_conformance.seams import SupportsCodedAudio, SupportsHabits
from wlk_conformance.sessions.monitor import Monitor
from wlk_conformance.sessions.oracle import Life, check_life
from wlk_conformance.sessions.played_stream import PlayedStream, Unexpected, reported
from wlk_conformance.sessions.running_text import check_running_text
from wlk_conformance.sessions.session import VOCABULARIES, Action, Session, Vocabulary
from wlk_conformance.sessions.violation import Violation
from wlk_conformance.stimuli import CodedSpeech
from wlk_core.errors import BackendError, OptionError, StreamBroken
from wlk_core.processor import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.engine_faults import EngineFaults
    from wlk_conformance.sessions.violation import Kind
    from wlk_conformance.stimuli import SpeechSource
    from wlk_core import Backend, BackendSpec

__all__ = ["Played", "Player"]

PROMPT = 5.0  # seconds within which a call that does not wait returns, on any machine
LIMIT = 30.0  # seconds: a held call that has not ended by then is stuck
#: Calls that must not raise: the rule that they break if they do, and their names.
CALLS = {
    "insert": ("IN-01", "insert_audio_chunk"),
    "read": ("HYP-01", "get_buffer"),
    "end_silence": ("SIL-03", "end_silence"),
}
ATTEMPTS = 6  # at a call whose engine always fails; a sound stream is broken after four


@attrs.define
class Played:
    """The lives of every stream of a session, and the first violation of each stream."""

    lives: dict[int, list[Life]] = attrs.field(factory=dict)
    violations: list[Violation] = attrs.field(factory=list)


class Player:
    """Plays one session on one backend."""

    def __init__(
        self,
        backend: Backend,
        spec: BackendSpec,
        source: SpeechSource,
        *,
        engine_calls: EngineFaults | None = None,
        recorded: Calls | None = None,
    ) -> None:
        self._backend = backend
        self._spec = spec
        self._source = source
        self._calls = engine_calls
        self._recorded = recorded or Calls()
        self.monitor = Monitor(spec, engine_calls)
        self._streams: dict[int, PlayedStream] = {}
        self._played = Played()

    def play(self, session: Session) -> Played:
        """Make every call of *session*, finish and close its streams, and judge their words."""
        try:
            self._prepare(session)
            for number, action in enumerate(session.actions, 1):
                self._recorded.action = number
                self._do(action, session)
            for number, stream in sorted(self._streams.items()):
                if stream.is_open:
                    self._exclusive(stream, Action(do="finish", stream=number))
                if stream.is_finished:
                    self._expect("LIFE-03", "finish", stream.finish_again)
        except Unexpected as unexpected:
            self.monitor.report(unexpected.violation)
        finally:
            self._recorded.action = 0
            self._set_faults(())
            self._close_all()
        self.monitor.settle()
        self._judge(session)
        return self._played

    def _prepare(self, session: Session) -> None:
        """Give a coded engine the words and the habits of *session*."""
        if session.vocabulary and isinstance(self._backend, SupportsCodedAudio):
            self._backend.vocabulary = VOCABULARIES[session.vocabulary].words
        if isinstance(self._backend, SupportsHabits):
            self._backend.habits = frozenset(session.habits)

    def _do(self, action: Action, session: Session) -> None:
        """Make the calls of *action*; one that the stream cannot take any more is left out."""
        if action.do == "open":
            self._open(action, session)
            return
        if action.do == "warmup":
            self._expect("LIFE-09", "warmup", self._warm_up)
            return
        stream = self._streams.get(action.stream)
        if stream is None or stream.is_closed:
            return
        if action.do in ("reset", "close"):
            rule = "LIFE-06" if action.do == "reset" else "LIFE-10"
            self._expect(rule, action.do, stream.reset if action.do == "reset" else stream.close)
        elif not stream.is_open:
            return
        elif action.do in CALLS:
            rule, name = CALLS[action.do]
            make = partial(getattr(stream, action.do), action)
            self._expect(rule, name, make, is_threaded=action.is_threaded)
        elif action.do == "refuse":
            stream.refuse(action)
        elif action.do == "drain":
            self._drain(stream)
        elif action.do == "exhaust":
            self._exhaust(stream)
        else:
            decode = self._hold if action.inner else self._exclusive
            decode(stream, action)

    def _open(self, action: Action, session: Session) -> None:
        if action.stream in self._streams:
            return
        options = action.options
        name = f"stream {action.stream}"
        with (
            reported("LIFE-01", "create_processor", action.stream),
            self._recorded.making("create_processor", name),
        ):
            try:
                processor = self._backend.create_processor(**options)
            except OptionError:
                options = {}
                processor = self._backend.create_processor()
        guarded = GuardedProcessor(processor, self._recorded, name)
        monitored = self.monitor.watch(guarded, name, options.get("language"))
        self._streams[action.stream] = PlayedStream(
            action.stream,
            monitored,
            session.tape_of(action.stream).render(self._source).audio,
            policy=options.get("policy"),
            keeps_delay=not set(options) - {"policy", "language", "task"},
        )

    def _warm_up(self) -> None:
        with self._recorded.making("warmup", "the backend"):
            self._backend.warmup()

    def _drain(self, stream: PlayedStream) -> None:
        """Process until there is no backlog, and once more, which must find nothing."""
        calls = 0
        while stream.processor.has_backlog:
            self._exclusive(stream, Action(do="process"))
            stream.count_drain()
            calls += 1
        drained = stream.processed if calls else math.inf  # a silence alone moves it at any call
        self._exclusive(stream, Action(do="process"))
        if stream.processed > drained:
            self._report(
                stream,
                "TIME-03",
                f"has_backlog was False at {drained:.3f} s, and process_iter went on to "
                f"{stream.processed:.3f} s",
            )
        delay = self._spec.delay_of(stream.policy)
        if delay is not None and stream.keeps_delay:
            backlog = stream.life.clock.end - stream.processed
            if backlog > delay:
                self._report(
                    stream, "RES-03", f"{backlog:.2f} s of audio wait, declared is {delay:g} s"
                )

    def _exclusive(self, stream: PlayedStream, action: Action) -> None:
        """Make a call whose engine calls may fail, and repeat it as a session does."""
        self._set_faults(action.faults, is_after=action.is_after)
        stream.faults = stream.faults + len(action.faults) if action.faults else 0
        try:
            for attempts_left in reversed(range(ATTEMPTS)):
                try:
                    rule, number = stream.rule_of(action), stream.number
                    with reported(rule, action.do, number, passes=BackendError):
                        _run(partial(stream.exclusive, action), is_threaded=action.is_threaded)
                    return
                except BackendError as error:
                    stream.failed(error)
                    if isinstance(error, StreamBroken) and stream.faults > MAX_RETRIES:
                        return  # the error of the call before this one came first
                    if action.is_given_up and action.faults and not stream.is_broken:
                        return
                    is_spurious = not stream.may_fail and not action.faults
                    if is_spurious or not attempts_left or isinstance(error, StreamBroken):
                        raise Unexpected(rule, action.do, error, number) from error
        finally:
            stream.may_fail = bool(action.faults)
            self._set_faults(())

    def _exhaust(self, stream: PlayedStream) -> None:
        """Fail every engine call until the stream is broken, which it must be for good."""
        if self._calls is None:
            return
        stream.insert(Action(do="insert", samples=16_000))
        start = self._calls.count
        errors: list[BaseException] = []
        self._set_faults(range(1, 200))
        try:
            for _ in range(ATTEMPTS):
                try:
                    with reported("ERR-01", "exhaust", stream.number, passes=BackendError):
                        stream.exclusive(Action(do="is_last"))
                    break
                except BackendError as error:
                    errors.append(error)
                    stream.failed(error)
        finally:
            self._set_faults(())
        if self._calls.count == start:
            return
        if not errors or not isinstance(errors[-1], StreamBroken):
            kinds = [type(error).__name__ for error in errors]
            self._report(
                stream,
                "ERR-03",
                f"the engine failed {self._calls.count - start} times in a row, the calls raised "
                f"{kinds}, expected StreamBroken after three failed retries",
            )
        stream.is_broken = True

    def _hold(self, stream: PlayedStream, action: Action) -> None:
        """Make an exclusive call on a thread, and the inner calls while its engine is held."""
        if self._calls is None:
            self._exclusive(stream, attrs.evolve(action, inner=()))
            return
        begun, go_on = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            go_on.wait(LIMIT)

        def call() -> None:
            try:
                stream.exclusive(action)
            finally:
                begun.set()

        self._calls.before_call = wait
        calling = ThreadedCall(call)
        try:
            begun.wait(LIMIT)
            for inner in action.inner:
                self._while_held(stream, action, inner)
        finally:
            self._calls.before_call = None
            go_on.set()
            has_ended = calling.wait(LIMIT)
        if not has_ended:
            self._report(
                stream, stream.rule_of(action), f"{action.do} did not end within {LIMIT:g} s"
            )
        if calling.error is not None:
            raise Unexpected(
                stream.rule_of(action), action.do, calling.error, stream.number
            ) from calling.error

    def _while_held(self, stream: PlayedStream, action: Action, inner: Action) -> None:
        is_insert = inner.do == "insert"
        make = partial(stream.insert if is_insert else stream.read, inner)
        name = "insert_audio_chunk" if is_insert else "get_buffer or stats"
        calling = ThreadedCall(make)
        if not calling.wait(PROMPT):
            rule = "IN-04" if is_insert else "HYP-01"
            message = f"{name} did not return within {PROMPT:g} s while {action.do} ran"
            self._report(stream, rule, message, kind="blocked")
        elif calling.error is not None and not (is_insert and action.do == "finish"):
            raise Unexpected(
                "IN-04" if is_insert else "HYP-01", name, calling.error, stream.number
            ) from calling.error

    def _expect(
        self,
        rule: str,
        name: str,
        call: Callable[[], object],
        *,
        is_threaded: bool = False,
    ) -> None:
        """Make a call that must not raise."""
        with reported(rule, name):
            _run(call, is_threaded=is_threaded)

    def _set_faults(self, faults: Any, *, is_after: bool = False) -> None:
        if self._calls is None:
            return
        numbers = frozenset(self._calls.count + fault for fault in faults)
        self._calls.fail_before = frozenset() if is_after else numbers
        self._calls.fail_after = numbers if is_after else frozenset()

    def _close_all(self) -> None:
        for stream in self._streams.values():
            if not stream.is_closed:
                try:
                    with reported("LIFE-10", "close", stream.number):
                        stream.close()
                except Unexpected as unexpected:
                    self._report(stream, "LIFE-10", str(unexpected))

    def _judge(self, session: Session) -> None:
        """Compare the words of each life with its audio, unless a call already broke a rule."""
        self._played.lives = {number: stream.lives for number, stream in self._streams.items()}
        self._played.violations = list(self.monitor.violations)
        if self._played.violations or not isinstance(self._source, CodedSpeech):
            return
        vocabulary = VOCABULARIES.get(session.vocabulary, Vocabulary(self._source.vocabulary))
        for number, stream in sorted(self._streams.items()):
            tape = session.tape_of(number)
            for life in stream.lives if tape.kind == "coded" else ():
                judged = chain(
                    check_life(life, tape, vocabulary, habits=session.habits),
                    check_running_text(life, tape, vocabulary, habits=session.habits),
                )
                if (first := next(judged, None)) is not None:
                    self._report(stream, first.rule, first.message, kind=first.kind)
                    self._played.violations = list(self.monitor.violations)
                    return

    def _report(
        self, stream: PlayedStream, rule: str, message: str, *, kind: Kind = "invariant"
    ) -> None:
        self.monitor.report(Violation(rule, message, kind=kind, stream=f"stream {stream.number}"))


def _run(call: Callable[[], object], *, is_threaded: bool) -> None:
    if not is_threaded:
        call()
        return
    calling = ThreadedCall(call)
    calling.wait()
    calling.raise_error()
