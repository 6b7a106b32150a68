"""Faulty streams and backends, their list, and what the suite detects of them."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
import importlib
import io
import threading
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

import attrs

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.report import judge_all
from wlk_conformance.rules import SUITE_VERSION, rule_tests
from wlk_conformance.runner import judge
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.scripted.backend import load as load_scripted
from wlk_conformance.sessions.campaign import SESSIONS, Campaign
from wlk_conformance.suite import BackendConformance
from wlk_core import Transcript
from wlk_core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wlk_core import Backend

#: What detects a fault: its rule and no other, a test of its rule, or the generated sessions of
#: each of three seeds.
Detector = Literal["its rule alone", "tests", "sessions"]
MODULES = ("packaging", "audio", "text", "hypotheses", "times", "silence", "speakers", "life_cycle",
           "closing", "sharing", "failure", "resources", "quality", "engine", "answers", "unusual",
           "process")  # fmt: skip


class FaultyStream:
    """
    A stream of the scripted backend; a subclass replaces one of the methods below with a fault.

    It counts what faults depend on.  After a reset everything that is not in `lasting` has its
    first value again.

    Attributes:
        stream: the sound stream inside.
        backend: the backend that all streams share.
        language, policy, tick: with which it was opened, None if they were left out.
        number: the number of the stream on its backend, from 1.
        resets: the number of resets so far.
        words: the number committed before the emission that is changed.
        calls, flushes: the number of calls that emit, and of those that flush.
        silences, pauses, lead: the number of silences, the seconds of those after audio, and of
            those before it.
        pause: the longest pause since the last word.
        chunks, chunk: the number of chunks, and the samples of the last one.
        is_due: for a fault that waits for a word, see `strikes`.

    """

    lasting = ("stream", "backend", "language", "policy", "tick", "number", "resets")
    words = calls = flushes = silences = chunks = chunk = 0
    pause = lead = 0.0
    pauses: tuple[float, ...] = ()
    is_due = False

    def __init__(self, stream, backend, language=None, policy=None, tick_seconds=None):
        self.stream, self.backend, self.language = stream, backend, language
        self.policy, self.tick = policy, tick_seconds
        self.number, self.resets = backend.streams_opened, 0
        self.begin()

    def begin(self):
        """Set the first values, after the opening and after each reset."""

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def strikes(self, emission):
        """Return whether a fault that is due meets a word, after which it is not due."""
        is_struck = bool(self.is_due and emission.committed)
        self.is_due = bool(self.is_due) and not is_struck
        return is_struck

    def insert_audio_chunk(self, audio, end_time=None):
        self.stream.insert_audio_chunk(self.received(audio), end_time)
        self.chunks += 1
        self.chunk = len(audio)

    def received(self, audio):
        """Return the audio that is inserted in place of *audio*, of any type."""
        return audio

    def end_silence(self, seconds, offset=None):
        self.stream.end_silence(self.waited(seconds), offset)
        self.silences += 1
        if self.stream.stats.audio_seconds:
            self.pause = max(self.pause, seconds)
            self.pauses += (seconds,)
        else:
            self.lead += seconds

    def waited(self, seconds):
        """Return by how much a silence moves the clock."""
        return seconds

    def process_iter(self, is_last=False):
        call = "is_last" if is_last else "process_iter"
        return self.made(call, lambda: self.stream.process_iter(is_last))

    def start_silence(self):
        return self.made("start_silence", self.stream.start_silence)

    def new_speaker(self, change):
        return self.made("new_speaker", lambda: self.stream.new_speaker(change))

    def finish(self):
        return self.made("finish", self.stream.finish)

    def made(self, call, make):
        """Make a call that emits."""
        self.calls += 1
        try:
            emission = make()
        except BackendError as error:
            return self.failed(error, call)
        if call != "process_iter":
            self.flushes += 1
        result = self.changed(emission, call)
        self.words += len(emission.committed)
        self.pause = 0.0 if emission.committed else self.pause
        return result

    def changed(self, emission, call):
        """Return what *call* emits in place of *emission*."""
        del call
        return emission

    def failed(self, error, call):
        """Return what *call* emits in place of *error*."""
        del call
        raise error

    def get_buffer(self):
        shown = self.stream.get_buffer()
        tokens = self.shown(shown.tokens)
        return shown if tokens is shown.tokens else Transcript(tuple(tokens))

    def shown(self, tokens):
        """Return the tokens of the hypothesis in place of *tokens*."""
        return tokens

    @property
    def stats(self):
        return self.counted(self.stream.stats)

    def counted(self, stats):
        """Return the counters in place of *stats*."""
        return stats

    def reset(self):
        self.stream.reset()
        self.__dict__ = {name: getattr(self, name) for name in self.lasting}
        self.resets += 1
        self.begin()


class LosingStream(FaultyStream):
    """A stream that loses the next word when that is due."""

    def changed(self, emission, call):
        return without(emission) if self.strikes(emission) else emission


class LockedStream(FaultyStream):
    """A stream that takes a lock in its `held` calls; calls that overlap them do without."""

    held = ("process_iter", "is_last")

    def begin(self):
        self.lock = threading.Lock()

    def made(self, call, make):
        if call not in self.held or not self.lock.acquire(blocking=False):
            return super().made(call, make)
        try:
            return super().made(call, make)
        finally:
            self.lock.release()


class FaultyBackend(ScriptedBackend):
    """The scripted backend with faulty streams; `marks` is state wrongly kept on a backend."""

    def __init__(self, faulty_stream=FaultyStream):
        super().__init__()
        self.faulty_stream = faulty_stream
        self.marks: dict[str, Any] = {}
        self.streams_opened = 0
        self.streams = WeakSet()

    def create_processor(self, **arguments):
        sound = super().create_processor(**self.taken(dict(arguments)))
        self.streams_opened += 1
        names = ("language", "policy", "tick_seconds")
        chosen = {name: arguments[name] for name in names if name in arguments}
        stream = self.faulty_stream(sound, self, **chosen)
        self.streams.add(stream)
        return stream

    def taken(self, arguments):
        """Return the arguments of a stream in place of *arguments*."""
        return arguments


@attrs.frozen(kw_only=True)
class FaultyCase:
    """
    A backend that breaks a rule.

    Attributes:
        name: the name of its class.
        rule: the rule that it breaks.
        detector: what must detect it; unless that is its rule alone, other rules may be broken too.
        sentence: the fault, for the table.
        make: the function that loads it.
        spec: where its declaration differs from that of the scripted backend.
        tiers: the tiers that are needed to detect it.
        entry_point: its plugin, where it needs one.

    """

    name: str
    rule: str
    detector: Detector
    sentence: str
    make: Callable[..., Backend]
    spec: Mapping[str, Any] = attrs.field(factory=dict)
    tiers: frozenset[str] = frozenset({"contract"})
    entry_point: str | None = None

    def under_test(self):
        """Return the backend for examination."""
        spec = attrs.evolve(SCRIPTED_SPEC, **self.spec)

        def load(model=None, **options):
            spec.backend_options(options)  # refuses options that the spec does not declare
            return self.make(model or spec.default_model, **options)

        return BackendUnderTest(
            spec=spec, load=load, tiers=self.tiers, entry_point=self.entry_point, sessions=0
        )

    def is_detected_by_tests(self):
        """Return whether a test of its rule fails, or a monitor reports the rule in any test."""
        return any(
            outcome.rule == self.rule and outcome.status == "fail"
            for outcome in outcomes(self.under_test(), rule=self.rule)
        )

    def is_detected_in_sessions(self, seed):
        """Return whether a generated session of *seed* breaks its rule."""
        under_test = self.under_test()
        under_test.begin_rule()
        campaign = Campaign(under_test, seed=seed)
        with redirect_stdout(io.StringIO()):
            for session, found in campaign.failures(SESSIONS):
                # The smallest session breaks the same rule if that is exact.
                smallest = found if found.is_exact else campaign.smallest(session, found)
                if smallest.rule == self.rule:
                    return True
        return False


_CASES: list[FaultyCase] = []


def listed(rule, *, detector, on="changed", spec=None, tiers=(), entry_point=None):
    """
    List a fault among those that break *rule*.

    It is a subclass of FaultyStream or FaultyBackend, or a function that replaces their method
    *on*; for any other backend, a function that replaces `load`.
    """

    def list_fault(fault):
        kind = fault if isinstance(fault, type) else _class_of(fault, on)

        def make(model=None, **options):
            if not issubclass(kind, FaultyStream | FaultyBackend):
                return kind.load(model, **options)
            load_scripted(SCRIPTED_SPEC, model).close()  # refuses a model that does not exist
            return kind() if issubclass(kind, FaultyBackend) else FaultyBackend(kind)

        _CASES.append(
            FaultyCase(
                name=kind.__name__,
                rule=rule,
                detector=detector,
                sentence=" ".join((kind.__doc__ or "").split()),
                make=make,
                spec=spec or {},
                tiers=frozenset({"contract", *tiers}),
                entry_point=entry_point,
            )
        )
        return fault

    return list_fault


alone: Callable[..., Any] = partial(listed, detector="its rule alone")
by_tests: Callable[..., Any] = partial(listed, detector="tests")
in_sessions: Callable[..., Any] = partial(listed, detector="sessions")


def _class_of(fault, on):
    """Return the class whose method *on* is the function *fault*."""
    name = "".join(part.capitalize() for part in fault.__name__.split("_"))
    bases = (FaultyBackend if on in ("taken", "warmup", "close") else FaultyStream,)
    members = {"__doc__": fault.__doc__, on: fault}
    if on == "load":
        bases, members = (), {**members, on: staticmethod(fault)}
    return type(name, bases, members)


def faulty_cases(*detectors):
    """Return the faulty backends that one of *detectors* must detect, all by default."""
    for module in MODULES:
        importlib.import_module(f"faulty_backends.{module}")
    return tuple(case for case in _CASES if not detectors or case.detector in detectors)


def outcomes(under_test, *, rule=None):
    """Yield the outcomes of the tests of *rule*, or of all, run in this process."""
    suite = BackendConformance()
    try:
        for declared, test in rule_tests(BackendConformance):
            if rule in (None, declared.id):
                found = []
                with redirect_stdout(io.StringIO()):
                    judge(declared, partial(test, suite), under_test, found.append)
                yield from found
    finally:
        under_test.close()


def broken_rules(under_test):
    """Run the suite on a backend in this process; return the results of the rules it breaks."""
    results = judge_all(
        [declared for declared, _ in rule_tests(BackendConformance)],
        list(outcomes(under_test)),
        deviations=under_test.spec.deviations,
        suite=SUITE_VERSION,
    )
    return {result.id: result for result in results if result.outcome in ("fail", "stale")}


def each(emission, change):
    """Return *emission* with *change* made to each token."""
    return attrs.evolve(emission, committed=tuple(map(change, emission.committed)))


def edited(emission, index, **changes):
    """Return *emission* with the token at *index* edited; see `edit`."""
    tokens = list(emission.committed)
    if -len(tokens) <= index < len(tokens):
        tokens[index] = edit(tokens[index], **changes)
    return attrs.evolve(emission, committed=tuple(tokens))


def edit(token, **changes):
    """Return *token* with changes, each a new value or a function of the old one."""
    values = {
        name: change(getattr(token, name)) if callable(change) else change
        for name, change in changes.items()
    }
    return attrs.evolve(token, **values)


def without(emission, first=1):
    """Return *emission* without its first words."""
    return attrs.evolve(emission, committed=emission.committed[first:])


def again(token):
    """Return *token* a second time, directly after itself."""
    return attrs.evolve(token, text=f" {token.text.strip()}", start=token.end)


def end_of(stream):
    """Return the end of the audio and silences of a faulty stream."""
    return float(stream.stream._input.end)
