"""The backend under test, as the rules see it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import metadata
import math
from pathlib import Path
import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from wlk_conformance.calls import CallLog, Calls
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.interfaces import SupportsCodedAudio, SupportsDeclaration
from wlk_conformance.rules import NotApplicable
from wlk_conformance.sessions.generated_session import GeneratedSession, Violation
from wlk_conformance.sessions.monitor import Monitor
from wlk_conformance.stimuli import CodedSpeech, DigitSpeech, OpenSpeech
from wlk_conformance.testing import StreamDriver
from wlk_core.errors import WLKError
from wlk_core.hookspecs import ENTRY_POINT_GROUP
from wlk_core.options import AUTO, parse_pairs
from wlk_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    import psutil

    from wlk_conformance.rules import RuleTest
    from wlk_conformance.stimuli import SpeechSource, Stimulus
    from wlk_core import ASRToken, Backend, BackendSpec
    from wlk_core.options import Option

_T = TypeVar("_T")
# Models trained on subtitles sometimes write "you" or "Thank you." for audio without speech, which
# a voice activity gate normally keeps from them.  A loop produces more words than this in 90 s.
OPEN_BOUNDS = {"invented_words": 10}
USUAL_DELAY = 3.0  # seconds; with a longer one, a stream may need all of it for its first step
# Values of options that take any text: a word that models of digits can spell.
FREE_TEXTS = {"prompt": "seven", "keyterms": "seven"}
CALL_ARGUMENTS = ("language", "task")  # of create_processor, beside the declared options


class LoadFailure(Exception):  # noqa: N818 -- an outcome for the rules, not a mistake of the suite
    """The backend could not be loaded; the cause explains why."""


@attrs.define(eq=False)
class BackendUnderTest:
    """
    A backend with its model and options, loaded once and shared by the rules.

    The calls of every stream that a rule opens through it are logged and monitored, and the stream
    is closed when the rule ends.
    """

    spec: BackendSpec  #: what the plugin declares, or the loaded backend (see SupportsDeclaration)
    load: Callable[..., Backend]  #: like `wlk_core.load_backend`
    model: str | None = None  #: as given, None for the spec's default
    #: As given; those of scope "stream", and `language` and `task`, go to the streams.
    options: Mapping[str, Any] = attrs.field(factory=dict)
    tiers: frozenset[str] = frozenset({"contract"})
    entry_point: str | None = None  #: of the plugin, None if it is not installed
    distribution: str = ""  #: that offers the backend
    version: str = ""  #: of the distribution
    #: Which words the model recognises, whatever its spec declares: "digits", or a folder of
    #: recordings; None to ask the spec.
    words: str | None = None
    rules: frozenset[str] = frozenset()  #: ids of the rules to run, empty for all
    seed: int = 0  #: of the generated sessions
    sessions: int | None = None  #: generated sessions to play, None for the default
    replays: Path | None = None  #: folder for generated sessions that fail, None to write none
    replay: GeneratedSession | None = None  #: the generated session to play instead of the tests
    calls: Calls = attrs.field(factory=Calls)  #: the running calls
    #: Called when a generated session is found to break a rule.
    at_finding: Callable[[], None] = attrs.field(default=lambda: None)
    notes: list[str] = attrs.field(factory=list, init=False)  #: of the running test, for the report
    recipes: list[str] = attrs.field(factory=list, init=False)
    call_logs: list[CallLog] = attrs.field(factory=list, init=False)
    started: list[tuple[psutil.Process, RuleTest]] = attrs.field(factory=list, init=False)
    violations: list[Violation] = attrs.field(factory=list, init=False)  #: found by monitors
    #: Reported rules, and whether the report has a generated session.
    reported: set[tuple[str, bool]] = attrs.field(factory=set, init=False)
    _monitors: dict[int, Monitor] = attrs.field(factory=dict, init=False)  # by id of a backend
    _backend: Backend | None = attrs.field(default=None, init=False)
    _load_error: BaseException | None = attrs.field(default=None, init=False)
    _opened: ExitStack = attrs.field(factory=ExitStack, init=False)  # streams and other backends
    _open_backends: list[Backend] = attrs.field(factory=list, init=False)
    _cache: dict[str, Any] = attrs.field(factory=dict, init=False)

    @property
    def backend(self) -> Backend:
        """The backend, loaded once, on first use; LoadFailure if loading failed."""
        if self._backend is None and self._load_error is None:
            try:
                self._backend = self.load_with()
                if isinstance(self._backend, SupportsDeclaration):
                    self.spec = self._backend.declared()
            except Exception as error:  # noqa: BLE001 -- a plugin's loader may raise any
                self._load_error = error
        if self._backend is None or self._load_error is not None:
            cause = self._load_error
            raise LoadFailure(f"{type(cause).__name__}: {cause}") from cause
        return self._backend

    @property
    def chosen_model(self) -> str | None:
        """The model, by default that of the spec."""
        return self.model or self.spec.default_model

    @property
    def refusal(self) -> WLKError | None:
        """The backend's own explanation of why it could not be loaded."""
        return self._load_error if isinstance(self._load_error, WLKError) else None

    @property
    def engine_calls(self) -> EngineFaults | None:
        """The faults of its engine calls, None if it has no `engine_calls`."""
        return EngineFaults.of_backend(self.backend)

    @property
    def faults(self) -> EngineFaults:
        """The same; NotApplicable if it has no `engine_calls`."""
        if self.engine_calls is None:
            raise NotApplicable("its engine cannot be made to fail (see SupportsEngineCalls)")
        return self.engine_calls

    @property
    def command(self) -> str:
        """The command that tests this backend."""
        parts = ["wlk-conformance", self.spec.name]
        parts += ["--model", self.model] if self.model is not None else []
        parts += ["--words", self.words] if self.words is not None else []
        for name, value in self.options.items():
            parts += ["--option", f"{name}={value}"]
        parts += [f"--{tier}" for tier in sorted(self.tiers - {"contract"})]
        return shlex.join(parts)

    @property
    def speech_source(self) -> SpeechSource:
        """Coded audio for a scripted engine, else the recordings in `words`, or spoken digits."""
        backend = self.backend  # first, because a loaded backend may declare its own models
        if isinstance(backend, SupportsCodedAudio):
            return CodedSpeech(vocabulary=backend.vocabulary)
        if self.words not in (None, "digits"):
            folder = Path(self.words)
            return self.cached("recordings", lambda: OpenSpeech.read(folder))
        is_known = self.words or self.chosen_model in self.spec.digit_models
        return DigitSpeech(kind="digits" if is_known else "unknown")

    @property
    def is_recognisable(self) -> bool:
        """Whether the model is declared to recognise the speech that it is fed, and must do so."""
        return self.speech_source.kind != "unknown"

    @property
    def is_coded(self) -> bool:
        """Whether the engine reads coded audio, so that words and times are known exactly."""
        return self.speech_source.kind == "coded"

    @property
    def bounds(self) -> Mapping[str, float]:
        """The quality that the spec declares on digits, or the suite's bounds on open words."""
        return OPEN_BOUNDS if self.speech_source.kind == "open" else self.spec.bounds

    @property
    def part(self) -> str:
        """The verdict if the chosen part of the suite passes, empty for all of the suite."""
        if self.replay is not None:
            return "the generated session passes"
        return "the chosen rules pass" if self.rules else ""

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
        """The policy of its streams, None if the backend declares none."""
        return self.stream_options.get("policy", next(iter(self.spec.policies), None))

    @property
    def variants(self) -> dict[str, dict[str, Any]]:
        """Arguments of streams with each other policy, and each option off its default, by name."""
        variants: dict[str, dict[str, Any]] = {}
        if "policy" not in self.stream_options:
            variants = {f"policy={name}": {"policy": name} for name in self.spec.policies[1:]}
        for option in self.stream_options_left:
            for value in off_default(option):
                fits = not option.policies or self.policy in option.policies
                policy = {} if fits else {"policy": option.policies[0]}
                variants[f"{option.name}={value}"] = {**policy, option.name: value}
        return variants

    @property
    def policy_variants(self) -> list[dict[str, Any]]:
        """Arguments of streams with each other policy."""
        return [arguments for arguments in self.variants.values() if [*arguments] == ["policy"]]

    @property
    def untried(self) -> list[str]:
        """The policies that were not chosen, and the options that have no value to try."""
        policies = [] if "policy" not in self.stream_options else self.spec.policies
        tried = {name.partition("=")[0] for name in self.variants} | self.options.keys()
        options = [option.name for option in self.spec.all_options if option.name not in tried]
        return [
            *(f"policy={name}" for name in policies if name != self.policy),
            *(name for name in options if name != "policy"),
        ]

    @property
    def stream_options_left(self) -> list[Option]:
        """The options of streams that can be varied: not set, and taken by a policy to be run."""
        policies = {self.policy} if "policy" in self.stream_options else {*self.spec.policies, None}
        return [
            option
            for option in self.spec.all_options
            if option.scope == "stream"
            and option.name not in {"policy", *self.options}
            and (not option.policies or policies & {*option.policies})
        ]

    @property
    def max_delay(self) -> float | None:
        """The declared delay of that policy, None if none is declared."""
        return self.spec.delay_of(self.policy)

    def load_with(self, **changes: Any) -> Backend:
        """
        Load the backend with its options and *changes*.

        One that is already open is a violation of ISO-06, and no other rule is judged with it.
        """
        with self.calls.recorded("load_backend"):
            backend = self.load(self.model, **{**self.backend_options, **changes})
        if any(backend is other for other in (self._backend, *self._open_backends)):
            text = "load() returned a backend that is already open, expected a new one at each call"
            self.violations.append(Violation("ISO-06", text))
            raise NotApplicable(f"not judged: {text} (ISO-06)")
        return backend

    def another_backend(self) -> Backend:
        """Load the backend once more, for this rule alone."""
        self.backend  # noqa: B018 -- a backend that does not load fails here, with its own message
        return self._opened.enter_context(self.closing(self.load_with()))

    def has(self, capability: str) -> bool:
        """Return whether the spec declares *capability*."""
        return capability in self.spec.capabilities

    def stream(
        self,
        audio: NDArray[np.float32] | None = None,
        /,
        *,
        of: Backend | None = None,
        **changes: Any,
    ) -> StreamDriver:
        """Open a stream and insert *audio*; `changes` are arguments of create_processor."""
        arguments = {**self.stream_options, **changes}
        backend = of or self.backend
        if id(backend) not in self._monitors:
            self._monitors[id(backend)] = Monitor(self.spec, backend, self.calls)
        log = CallLog(
            f"stream {len(self.call_logs) + 1}",
            ", ".join(f"{name}={value!r}" for name, value in arguments.items()),
        )
        stream = self._monitors[id(backend)].open(log.name, arguments, log)
        self._opened.callback(stream.close)
        self.call_logs.append(log)
        driver = StreamDriver(stream)
        if audio is not None:
            driver.insert(audio)
        return driver

    def speech(self, count: int, **how: Any) -> Stimulus:
        """Return *count* words, or more if the policy needs more audio, and note their recipe."""
        return self.speech_for({}, count, **how)

    def speech_for(
        self, arguments: Mapping[str, Any], count: int, *, steps: int = 1, **how: Any
    ) -> Stimulus:
        """Return *count* words, or more if a stream with *arguments* needs more for its *steps*."""
        delay = self.spec.delay_of(arguments.get("policy", self.policy))
        stimulus = self.speech_source.speech(count, **how)
        needed = steps * delay if delay and USUAL_DELAY < delay < math.inf else 0.0
        while stimulus.seconds < needed:
            count *= 2
            stimulus = self.speech_source.speech(count, **how)
        return self.log_stimulus(stimulus)

    def log_stimulus(self, stimulus: Stimulus) -> Stimulus:
        """Note the recipe of *stimulus* and return it."""
        if stimulus.recipe not in self.recipes:
            self.recipes.append(stimulus.recipe)
        return stimulus

    def run(
        self,
        stimulus: Stimulus,
        *,
        chunk_seconds: float = 1.0,
        before: Callable[[StreamDriver, NDArray[np.float32]], object] | None = None,
        **changes: Any,
    ) -> StreamDriver:
        """Feed a new stream, with an action *before* each chunk; drain, finish and return it."""
        driver = self.stream(**changes)
        for chunk in stimulus.chunks(chunk_seconds):
            if before is not None:
                before(driver, chunk)
            driver.feed(chunk, chunk_seconds=chunk_seconds)
        driver.end()
        return driver

    def play(self, *parts: NDArray[np.float32] | float, **changes: Any) -> StreamDriver:
        """Feed a new stream audio, and silences given in seconds; finish and return it."""
        driver = self.stream(**changes)
        for part in parts:
            if isinstance(part, float):
                driver.silence(part)
            else:
                driver.feed(part)
        driver.finish()
        return driver

    def solo(self, stimulus: Stimulus, *, chunk_seconds: float = 1.0) -> tuple[ASRToken, ...]:
        """Return the tokens of *stimulus* in a stream of its own, which is run once."""
        self.log_stimulus(stimulus)
        return self.cached(
            f"solo {stimulus.recipe} in {chunk_seconds:g} s",
            lambda: self.run(stimulus, chunk_seconds=chunk_seconds).tokens,
        )

    def require_tokens(
        self, tokens: Sequence[ASRToken], stimulus: Stimulus | None = None
    ) -> Sequence[ASRToken]:
        """
        Return *tokens* if there are any, because silence must not pass a rule about text.

        Otherwise raise AssertionError if the model must recognise the speech, else NotApplicable.
        """
        if tokens:
            return tokens
        what = "speech"
        if stimulus is not None:
            what = f"{len(stimulus.words)} words in {stimulus.seconds:.1f} s of speech"
        if self.is_recognisable:
            raise AssertionError(f"no tokens came back for {what}")
        raise NotApplicable(f"no tokens came back for {what}; use --model digits")

    def cached(self, key: str, make: Callable[[], _T]) -> _T:
        """Return the result of *make*, which is called once for each *key*."""
        if key not in self._cache:
            self._cache[key] = make()
        value: _T = self._cache[key]
        return value

    @contextmanager
    def closing(self, backend: Backend) -> Iterator[Backend]:
        """Close *backend* after the block, ignoring its errors, because LIFE-10 judges them."""
        self._open_backends.append(backend)
        try:
            yield backend
        finally:
            self._open_backends.remove(backend)
            with suppress(Exception), self.calls.recorded("close", "the backend"):
                backend.close()

    def left_behind(self, printed: str) -> Iterator[Violation]:
        """Yield the violations of a test or generated session that *printed* text or forked."""
        if printed:
            lines = printed.strip().splitlines()
            line = lines[0] if lines else ""
            yield Violation("PKG-06", f"{line!r} was written to standard output")
        if call := self.calls.pop_forked_call():
            yield Violation("LIFE-10", f"{call} also returned in a forked copy of the process")

    def begin_rule(self) -> None:
        """Forget what the last test noted."""
        for noted in (self.notes, self.recipes, self.call_logs, self.violations, self._monitors):
            noted.clear()

    def end_rule(self) -> None:
        """Close what the test opened, and collect the violations that its monitors found."""
        with suppress(Exception):  # LIFE-10 judges closing; here it must not hide a finding
            self._opened.close()  # all of them, even if one raises
        for monitor in self._monitors.values():
            monitor.settle()
            self.violations += monitor.violations

    def close(self) -> None:
        """Close the backend."""
        if self._backend is not None:
            with self.calls.recorded("close", "the backend"):
                self._backend.close()


def off_default(option: Option) -> tuple[Any, ...]:
    """Return one or two values of *option* other than its default; none if none is known."""
    if option.choices:
        others = [value for value in option.choices if value not in (option.default, AUTO)]
        if others and option.type is not str:  # the lowest and the highest
            return tuple(sorted({min(others), max(others)}))
        return tuple(others[:1])
    if option.type is bool:
        return (not option.default,)
    if option.type is str:  # others are a file or a name, whose values only the backend knows
        return (FREE_TEXTS[option.name],) if option.name in FREE_TEXTS else ()
    return _numbers_off_default(option)


def _numbers_off_default(option: Option) -> tuple[Any, ...]:
    highest = math.inf if option.maximum is None else option.maximum
    if option.default in (None, AUTO):  # a low and a high value, because a model may refuse one
        values = {min(factor * (option.minimum or 1), highest) for factor in (4, 10)}
        return tuple(option.type(value) for value in sorted(values))
    value = min(2 * option.default, highest)
    if value == option.default:
        value = option.default / 2 if option.minimum is None else option.minimum
    return () if value == option.default else (option.type(value),)


def find_backend(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    pairs: Iterable[str] = (),
    tiers: Iterable[str] = (),
    rules: Iterable[str] = (),
    replay: str | None = None,
    **chosen: Any,
) -> BackendUnderTest:
    """
    Return the installed backend *name*, not yet loaded; *replay* is a generated session as JSON.

    Options are given by name, as KEY=VALUE strings in *pairs*, or both.  Raises BackendUnavailable
    for a backend that is not installed or is broken, and OptionError for a pair that sets no
    declared option, or JSON that is not a generated session.
    """
    registry = Registry()
    spec, owner = registry.spec(name), registry.owner(name)
    points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    arguments: dict[str, Any] = {}
    declared: list[str] = []
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key in CALL_ARGUMENTS:
            arguments[key] = value
        else:
            declared.append(pair)
    values = spec.split_options(parse_pairs(declared))
    spec.check_language(arguments.get("language"))
    spec.check_task(arguments.get("task", "transcribe"))
    return BackendUnderTest(
        spec=spec,
        load=partial(registry.load_backend, name),
        distribution=owner.distribution,
        version=owner.version,
        options={**values.backend, **values.stream, **arguments, **(options or {})},
        tiers=frozenset({"contract", *tiers}),
        entry_point=next((point.value for point in points if point.name in owner.names), None),
        rules=frozenset(rules),
        replay=None if replay is None else GeneratedSession.from_json(replay),
        **chosen,
    )
