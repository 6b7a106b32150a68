"""The backend under test, as the rules see it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from wlk_conformance.calls import CallLog, Calls, GuardedProcessor
from wlk_conformance.rules import NotApplicable
from wlk_conformance.seams import SupportsDeclaration, engine_faults
from wlk_conformance.sessions.monitor import Monitor
from wlk_conformance.stimuli import choose_speech_source
from wlk_conformance.testing import StreamDriver
from wlk_core.backend import LONG_FORM, LONG_FORM_DELAY
from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import psutil

    from wlk_conformance.engine_faults import EngineFaults
    from wlk_conformance.report import Part
    from wlk_conformance.rules import RuleTest
    from wlk_conformance.sessions.session import Session
    from wlk_conformance.sessions.violation import Violation
    from wlk_conformance.stimuli import SpeechSource, Stimulus
    from wlk_core import ASRToken, Backend, BackendSpec

__all__ = ["CALL_ARGUMENTS", "BackendUnderTest", "LoadFailure"]

_T = TypeVar("_T")
# Models trained on subtitles write "you" or "Thank you." now and then where there is no speech; a
# voice activity gate keeps such audio from them.  A loop makes more words than these in 90 s.
OPEN_BOUNDS = {"invented_words": 10}
CALL_ARGUMENTS = ("language", "task")  # of create_processor, beside the declared options


class LoadFailure(Exception):  # noqa: N818 -- an outcome for the rules, not a mistake of the suite
    """The backend could not be loaded; the cause explains why."""


@attrs.define(eq=False)
class BackendUnderTest:
    """
    A backend with its model and options, loaded once and shared by the rules.

    The calls of every stream that a rule opens through it are logged and monitored, and the stream
    is closed when the rule ends.

    Attributes:
        spec: what the plugin declares, or the loaded backend (see SupportsDeclaration).
        load: loads it, as `wlk_core.load_backend` does.
        model: as given, None for the spec's default.
        options: as given; those of scope "stream", and `language` and `task`, go to the streams.
        tiers: the tiers to run.
        entry_point: "module" or "module:attribute" of the plugin, None where it is not installed.
        words: which words the model recognises, whatever its spec declares: "digits", or a folder
            of recordings; None to ask the spec.
        rules: the ids of the rules to run, empty for all.
        seed: of the generated sessions.
        sessions: how many are generated; None for the default number.
        replays: the folder in which sessions that fail are written; None for nowhere.
        replay: the session to play instead of generated ones.
        calls: the record of the calls that run.
        at_finding: called when a session was found to break a rule.

    """

    spec: BackendSpec
    load: Callable[..., Backend]
    model: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    tiers: frozenset[str] = frozenset({"contract"})
    entry_point: str | None = None
    words: str | None = None
    rules: frozenset[str] = frozenset()
    seed: int = 0
    sessions: int | None = None
    replays: Path | None = None
    replay: Session | None = None
    calls: Calls = attrs.field(factory=Calls)
    at_finding: Callable[[], None] = attrs.field(default=lambda: None)
    notes: list[str] = attrs.field(factory=list, init=False)
    recipes: list[str] = attrs.field(factory=list, init=False)
    call_logs: list[CallLog] = attrs.field(factory=list, init=False)
    started: list[tuple[psutil.Process, RuleTest]] = attrs.field(factory=list, init=False)
    violations: list[Violation] = attrs.field(factory=list, init=False)  #: found by monitors
    advice: dict[str, str] = attrs.field(factory=dict, init=False)  #: by rule, from sessions
    found: set[tuple[str, str]] = attrs.field(factory=set, init=False)  #: rule, advice
    _monitors: dict[int, Monitor] = attrs.field(factory=dict, init=False)  # by id of a backend
    _backend: Backend | None = attrs.field(default=None, init=False)
    _load_error: BaseException | None = attrs.field(default=None, init=False)
    _speech_source: SpeechSource | None = attrs.field(default=None, init=False)
    _opened: list[GuardedProcessor] = attrs.field(factory=list, init=False)
    _others: list[Backend] = attrs.field(factory=list, init=False)
    _cache: dict[str, Any] = attrs.field(factory=dict, init=False)

    @property
    def backend(self) -> Backend:
        """
        The backend, loaded on first use.

        Raises:
            LoadFailure: the first attempt failed; it is not repeated.

        """
        if self._load_error is not None:
            raise LoadFailure(f"{type(self._load_error).__name__}: {self._load_error}") from (
                self._load_error
            )
        if self._backend is None:
            try:
                self._backend = self.load_with()
                if isinstance(self._backend, SupportsDeclaration):
                    self.spec = self._backend.declared()
            except Exception as error:  # a plugin's loader may raise any; each rule reports it
                self._load_error = error
                raise LoadFailure(f"{type(error).__name__}: {error}") from error
        return self._backend

    @property
    def refusal(self) -> WLKError | None:
        """The backend's own explanation of why it could not be loaded."""
        return self._load_error if isinstance(self._load_error, WLKError) else None

    @property
    def engine_calls(self) -> EngineFaults | None:
        """The seam of the engine, None where the backend has none."""
        return engine_faults(self.backend)

    @property
    def command(self) -> str:
        """The command that tests this backend."""
        parts = ["wlk-conformance", self.spec.name]
        parts += ["--model", self.model] if self.model is not None else []
        if self.words is not None:
            is_open = self.words != "digits"
            parts += ["--words", *(["open", "--recordings"] if is_open else []), self.words]
        for name, value in self.options.items():
            parts += ["--option", f"{name}={value}"]
        parts += [f"--{tier}" for tier in sorted(self.tiers - {"contract"})]
        return shlex.join(parts)

    @property
    def speech_source(self) -> SpeechSource:
        """The source of speech that suits the model."""
        if self._speech_source is None:
            backend = self.backend  # first, because a loaded backend may declare its own models
            model = self.model or self.spec.default_model
            models = self.spec.digit_models
            self._speech_source = choose_speech_source(
                backend, model, digit_models=models, words=self.words
            )
        return self._speech_source

    @property
    def bounds(self) -> Mapping[str, float]:
        """The quality that the spec declares on digits, or the suite's bounds on open words."""
        return OPEN_BOUNDS if self.speech_source.kind == "open" else self.spec.bounds

    @property
    def part(self) -> Part | None:
        """What was chosen of the suite, None for all of it."""
        if self.replay is not None:
            return "session"
        return "rules" if self.rules else None

    @property
    def backend_options(self) -> dict[str, Any]:
        """The options that loading takes."""
        streams = set(self.stream_options)
        return {name: value for name, value in self.options.items() if name not in streams}

    @property
    def stream_options(self) -> dict[str, Any]:
        """The options that creating a stream takes."""
        known = {option.name for option in self.spec.all_options if option.scope == "stream"}
        known.update(CALL_ARGUMENTS)
        return {name: value for name, value in self.options.items() if name in known}

    @property
    def policy(self) -> str | None:
        """The policy of its streams, None where the backend declares none."""
        return self.stream_options.get("policy", next(iter(self.spec.policies), None))

    @property
    def max_delay(self) -> float | None:
        """The declared delay of that policy, None where none is declared."""
        return self.spec.delay_of(self.policy)

    def load_with(self, **changes: Any) -> Backend:
        """Load the backend with its options and *changes*."""
        with self.calls.making("load_backend"):
            return self.load(self.model, **{**self.backend_options, **changes})

    def another_backend(self) -> Backend:
        """Load the backend once more, for this rule alone."""
        self.backend  # noqa: B018 -- a backend that does not load fails here, with its own message
        other = self.load_with()
        self._others.append(other)
        return other

    def has(self, capability: str) -> bool:
        """Return whether the spec declares *capability*."""
        return capability in self.spec.capabilities

    def stream(self, *, of: Backend | None = None, **changes: Any) -> StreamDriver:
        """Open a stream; `changes` are arguments of create_processor."""
        arguments = {**self.stream_options, **changes}
        backend = of or self.backend
        name = f"stream {len(self.call_logs) + 1}"
        with self.calls.making("create_processor", name):
            processor = backend.create_processor(**arguments)
        log = CallLog(name, ", ".join(f"{name}={value!r}" for name, value in arguments.items()))
        self.call_logs.append(log)
        guarded = GuardedProcessor(processor, self.calls, name, log)
        self._opened.append(guarded)
        return StreamDriver(self._monitor(backend).watch(guarded, name, arguments.get("language")))

    def speech(self, count: int, **how: Any) -> Stimulus:
        """
        Return *count* words of the speech source, and note how to make them again.

        They are more where the policy would not decode before their end.
        """
        stimulus = self.speech_source.speech(count, **how)
        while self.policy == LONG_FORM and stimulus.seconds < LONG_FORM_DELAY:
            count *= 2
            stimulus = self.speech_source.speech(count, **how)
        return self.log_stimulus(stimulus)

    def log_stimulus(self, stimulus: Stimulus) -> Stimulus:
        """Note how *stimulus* was made and return it."""
        if stimulus.recipe not in self.recipes:
            self.recipes.append(stimulus.recipe)
        return stimulus

    def run(
        self, stimulus: Stimulus, *, chunk_seconds: float = 1.0, **changes: Any
    ) -> StreamDriver:
        """Feed a new stream in chunks, drain it, finish it and return it."""
        driver = self.stream(**changes)
        driver.feed(stimulus.audio, chunk_seconds=chunk_seconds)
        driver.drain()
        driver.finish()
        return driver

    def solo(self, stimulus: Stimulus) -> tuple[ASRToken, ...]:
        """Return the tokens of *stimulus* in a stream of its own, in chunks of a second; cached."""
        self.log_stimulus(stimulus)
        return self.cached(f"solo {stimulus.recipe}", lambda: self.run(stimulus).tokens)

    def require_tokens(
        self, tokens: Sequence[ASRToken], stimulus: Stimulus | None = None
    ) -> Sequence[ASRToken]:
        """
        Return *tokens* if there are any, because a rule about text is not passed by silence.

        Raises:
            AssertionError: there are none, though the model recognises this speech.
            NotApplicable: there are none, and whether the model recognises it is not known.

        """
        if tokens:
            return tokens
        what = "speech"
        if stimulus is not None:
            what = f"{len(stimulus.words)} words in {stimulus.seconds:.1f} s of speech"
        if self.speech_source.is_recognisable:
            raise AssertionError(f"no tokens came back for {what}")
        raise NotApplicable(f"no tokens came back for {what}; use --model digits")

    def cached(self, key: str, make: Callable[[], _T]) -> _T:
        """Return the result of the first *make* that was called for *key*."""
        if key not in self._cache:
            self._cache[key] = make()
        value: _T = self._cache[key]
        return value

    def found_in_session(self, violation: Violation, advice: str) -> None:
        """Report what a session found, with *advice* how to repeat it."""
        self.violations.append(violation)
        self.advice[violation.rule] = advice

    def note(self, line: str) -> None:
        """Add *line* to the report of this rule, passed or not."""
        self.notes.append(line)

    @contextmanager
    def faults(self, *calls: int, after: bool = False) -> Iterator[EngineFaults]:
        """
        Make engine calls fail, numbered from now on: 1 is the next call.

        With *after* they fail once the engine has run, so that its state is ahead of the stream.

        Raises:
            NotApplicable: the backend has no such seam.

        """
        engine_calls = self.engine_calls
        if engine_calls is None:
            raise NotApplicable("its engine cannot be made to fail (see SupportsEngineCalls)")
        numbers = frozenset(engine_calls.count + call for call in calls)
        if after:
            engine_calls.fail_after = numbers
        else:
            engine_calls.fail_before = numbers
        try:
            yield engine_calls
        finally:
            engine_calls.fail_before = engine_calls.fail_after = frozenset()

    @contextmanager
    def answers(self, spell: Callable[[str], str] = str) -> Iterator[list[tuple[str, ...]]]:
        """
        Record the texts of the words that the engine returns, each spelled otherwise by *spell*.

        Raises:
            NotApplicable: the backend has no such seam.

        """
        with self.faults() as engine_calls:
            engine_calls.spell, engine_calls.answers = spell, []
            try:
                yield engine_calls.answers
            finally:
                engine_calls.spell = None

    @contextmanager
    def gate(self, wait: Callable[[], None]) -> Iterator[bool]:
        """Run *wait* before every engine call; yields False where the engine cannot be held."""
        engine_calls = self.engine_calls
        if engine_calls is None:
            yield False
            return
        engine_calls.before_call = wait
        try:
            yield True
        finally:
            engine_calls.before_call = None

    def begin_rule(self) -> None:
        """Drop what the last rule noted."""
        self.notes.clear()
        self.recipes.clear()
        self.call_logs.clear()
        self.violations.clear()
        self._monitors.clear()

    def end_rule(self) -> None:
        """Close what the rule opened, and take the violations that its monitors found."""
        opened, self._opened = self._opened, []
        others, self._others = self._others, []
        for stream in opened:
            with suppress(Exception):  # LIFE-10 judges closing; here it must not hide a finding
                stream.close()
        for other in others:
            self.close_backend(other)
        for monitor in self._monitors.values():
            monitor.settle()
            self.violations += monitor.violations

    def _monitor(self, backend: Backend) -> Monitor:
        """Return the monitor of the streams of *backend* in this rule."""
        if id(backend) not in self._monitors:
            self._monitors[id(backend)] = Monitor(self.spec, engine_faults(backend))
        return self._monitors[id(backend)]

    def close_backend(self, backend: Backend) -> None:
        """Close a backend that was loaded for one scene; LIFE-10 judges what it raises."""
        with suppress(Exception), self.calls.making("close", "the backend"):
            backend.close()

    def close(self) -> None:
        """Close the backend."""
        if self._backend is not None:
            with self.calls.making("close", "the backend"):
                self._backend.close()
