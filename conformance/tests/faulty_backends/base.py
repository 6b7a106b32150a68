"""Faulty streams and backends, how they are listed, and what the suite detects of them."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
import importlib
import io
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.report import judge_all
from wlk_conformance.rules import SUITE_VERSION, rule_tests
from wlk_conformance.runner import examine, findings
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.scripted.backend import load
from wlk_conformance.sessions.campaign import SESSIONS, Campaign
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wlk_conformance.report import RuleResult
    from wlk_core import Backend, Emission

__all__ = [
    "CountedStream",
    "FaultyBackend",
    "FaultyCase",
    "FaultyStream",
    "breaks",
    "broken_rules",
    "edited",
    "faulty_cases",
    "violates",
    "with_tokens",
]

#: What detects a fault: its rule and no other, a test of its rule, or the sessions of each of three
#: seeds.
Detector = Literal["its rule alone", "tests", "sessions"]
#: The modules of faulty backends and the class of their faults.
CLASSES = {
    **dict.fromkeys(
        ("packaging", "audio_in", "text_out", "times", "silence", "speakers", "lifecycle",
         "sharing", "batching", "failure", "resources", "quality"),
        "one scene",
    ),
    **dict.fromkeys(
        ("late_text", "late_times", "rare_audio", "rare_states", "rare_failures", "hidden_costs",
         "policies"),
        "late or rare",
    ),
    "late_onset": "late onset",
    "late_hypotheses": "late onset",
    "rare_input": "rare input",
    "rare_calls": "rare calls",
    "rare_turns": "rare calls",
    "rare_refusals": "rare calls",
    "dishonest_counters": "dishonest counters",
    "false_declarations": "false declarations",
    "processes": "processes",
    "below_the_caller": "below the caller",
    "in_passing": "in passing",
}  # fmt: skip


class FaultyStream:
    """
    A stream of the scripted backend with a fault: a subclass replaces what it does wrong.

    `stream` is the sound stream inside, `backend` the backend that all streams share.
    """

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        self.stream = stream
        self.backend = backend
        self.language = language

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the sound stream."""
        return getattr(self.stream, name)

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Return *emission*, the result of *call*, with the fault."""
        del call
        return emission

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Call the sound stream."""
        call = "is_last" if is_last else "process_iter"
        return self.emitted(self.stream.process_iter(is_last), call)

    def start_silence(self) -> Emission:
        """Call the sound stream."""
        return self.emitted(self.stream.start_silence(), "start_silence")

    def new_speaker(self, change: Any) -> Emission:
        """Call the sound stream."""
        return self.emitted(self.stream.new_speaker(change), "new_speaker")

    def finish(self) -> Emission:
        """Call the sound stream."""
        return self.emitted(self.stream.finish(), "finish")


class FaultyBackend(ScriptedBackend):
    """The scripted backend with faulty streams; `marks` is state wrongly kept on a backend."""

    def __init__(self, faulty_stream: type[FaultyStream] = FaultyStream) -> None:
        super().__init__()
        self.faulty_stream = faulty_stream
        self.marks: dict[str, Any] = {}

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Return a faulty stream."""
        sound = super().create_processor(language=language, task=task, **options)
        return self.faulty_stream(sound, self, language)


class CountedStream(FaultyStream):
    """A stream that counts its silences, its flushes, and the words committed before."""

    silences = 0
    flushes = 0
    words = 0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Count it."""
        self.stream.end_silence(seconds, offset)
        self.silences += 1

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Count a flush, apply the fault, and count the words of the sound stream."""
        self.flushes += call != "process_iter"
        result = self.changed(emission, call)
        self.words += len(emission.committed)
        return result

    def reset(self) -> None:
        """Begin anew."""
        self.stream.reset()
        self.silences = self.flushes = self.words = 0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Return *emission* with the fault."""
        del call
        return emission


@attrs.frozen(kw_only=True)
class FaultyCase:
    """
    A backend that breaks a rule.

    Attributes:
        name: of its class.
        rule: the rule that it breaks.
        detector: what must detect it; unless that is its rule alone, others may be broken as well.
        sentence: its fault, for the table.
        make: loads it.
        spec: where its declaration differs from that of the scripted backend.
        tiers: the tiers that are needed to detect it.
        entry_point: its plugin module, where it needs one.

    """

    name: str
    rule: str
    detector: Detector
    kind: str  #: the class of its fault
    sentence: str
    make: Callable[..., Backend]
    spec: Mapping[str, Any] = attrs.field(factory=dict)
    tiers: frozenset[str] = frozenset({"contract"})
    entry_point: str | None = None

    def under_test(self) -> BackendUnderTest:
        """Return the backend for examination."""
        spec = attrs.evolve(SCRIPTED_SPEC, **self.spec)

        def load(model: str | None = None, **options: Any) -> Backend:
            spec.backend_options(options)  # refuses options that the spec does not declare
            return self.make(model or spec.default_model)

        return BackendUnderTest(
            spec=spec, load=load, tiers=self.tiers, entry_point=self.entry_point, sessions=0
        )

    def is_detected_by_tests(self) -> bool:
        """Return whether a test of its rule fails, or what watches every stream of it reports."""
        under_test = self.under_test()
        suite = BackendConformance()
        try:
            with redirect_stdout(io.StringIO()):
                for declared, test in rule_tests(BackendConformance):
                    if declared.id != self.rule:
                        continue
                    outcome = examine(declared, partial(test, suite), under_test)
                    found = [outcome, *findings(declared, under_test)]
                    if any(o.rule == self.rule and o.status == "fail" for o in found):
                        return True
        finally:
            under_test.close()
        return False

    def is_detected_in_sessions(self, seed: int) -> bool:
        """Return whether a session of *seed* breaks its rule."""
        under_test = self.under_test()
        under_test.begin_rule()
        with redirect_stdout(io.StringIO()):
            return any(
                finding.violation.rule == self.rule
                for finding in Campaign(under_test, seed=seed).findings(SESSIONS)
            )


_Class = TypeVar("_Class")
_CASES: list[FaultyCase] = []


def violates(
    rule: str,
    *,
    detector: Detector = "tests",
    spec: Mapping[str, Any] | None = None,
    tiers: Iterable[str] = (),
    entry_point: str | None = None,
) -> Callable[[type[_Class]], type[_Class]]:
    """
    List a class among those that break *rule*.

    It is a subclass of FaultyStream or FaultyBackend, or any class with a static method `load`.
    """

    def listed(kind: type[_Class]) -> type[_Class]:
        def make(model: str | None = None) -> Backend:
            if not issubclass(kind, FaultyStream | FaultyBackend):
                loaded: Backend = kind.load(model)  # type: ignore[attr-defined]  # see above
                return loaded
            load(SCRIPTED_SPEC, model).close()  # refuses a model that does not exist
            return kind() if issubclass(kind, FaultyBackend) else FaultyBackend(kind)

        _CASES.append(
            FaultyCase(
                name=kind.__name__,
                rule=rule,
                detector=detector,
                kind=CLASSES[kind.__module__.rpartition(".")[2]],
                sentence=" ".join((kind.__doc__ or "").split()),
                make=make,
                spec=spec or {},
                tiers=frozenset({"contract", *tiers}),
                entry_point=entry_point,
            )
        )
        return kind

    return listed


#: The same for a class that breaks no other rule.
breaks = partial(violates, detector="its rule alone")


def faulty_cases(*detectors: Detector) -> tuple[FaultyCase, ...]:
    """Return the faulty backends that one of *detectors* must detect, all by default."""
    for module in CLASSES:
        importlib.import_module(f"faulty_backends.{module}")
    return tuple(case for case in _CASES if not detectors or case.detector in detectors)


def broken_rules(under_test: BackendUnderTest) -> dict[str, RuleResult]:
    """Run the suite on a backend in this process; return the rules that it breaks."""
    suite = BackendConformance()
    tests = list(rule_tests(BackendConformance))
    try:
        with redirect_stdout(io.StringIO()):
            outcomes = []
            for declared, test in tests:
                outcomes.append(examine(declared, partial(test, suite), under_test))
                outcomes += findings(declared, under_test)
    finally:
        under_test.close()
    results = judge_all(
        [declared for declared, _ in tests],
        outcomes,
        deviations=under_test.spec.deviations,
        suite=SUITE_VERSION,
    )
    return {result.id: result for result in results if result.outcome in ("fail", "stale")}


def with_tokens(emission: Emission, **changes: Any) -> Emission:
    """Return *emission* with the same changes made to each token."""
    tokens = tuple(attrs.evolve(token, **changes) for token in emission.committed)
    return emission.replace(committed=tokens)


def edited(emission: Emission, index: int, **changes: Any) -> Emission:
    """Return *emission* with changes to one token; the same where it has no such token."""
    tokens = list(emission.committed)
    if not -len(tokens) <= index < len(tokens):
        return emission
    tokens[index] = attrs.evolve(tokens[index], **changes)
    return emission.replace(committed=tuple(tokens))
