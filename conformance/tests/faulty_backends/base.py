"""Faulty streams and backends, how they are listed, and the rules that the suite finds broken."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
import importlib
import io
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.report import judge_all
from wlk_conformance.rules import SUITE_VERSION, rule_tests
from wlk_conformance.runner import examine, findings
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.scripted.backend import load
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wlk_conformance.report import RuleResult
    from wlk_core import Backend, Emission

__all__ = [
    "FaultyBackend",
    "FaultyCase",
    "FaultyStream",
    "all_cases",
    "breaks",
    "breaks_in_sessions",
    "broken_rules",
    "session_cases",
    "with_tokens",
]

FAMILIES = (
    "packaging", "audio_in", "text_out", "times", "silence", "speakers", "lifecycle", "sharing",
    "batching", "failure", "resources", "quality",
)  # fmt: skip
SESSION_FAMILIES = (
    "late_text", "late_times", "rare_audio", "rare_states", "rare_failures", "hidden_costs",
    "policies",
)  # fmt: skip


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


@attrs.frozen(kw_only=True)
class FaultyCase:
    """
    A backend that breaks one rule.

    Attributes:
        name: of its class.
        rule: the rule that detects it, and the only one.
        sentence: its fault, for the table.
        make: loads it.
        spec: where its declaration differs from that of the scripted backend.
        tiers: the tiers that are needed to detect it.
        entry_point: its plugin module, where it needs one.

    """

    name: str
    rule: str
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


_Class = TypeVar("_Class")
_CASES: list[FaultyCase] = []
_SESSION_CASES: list[FaultyCase] = []


def breaks(
    rule: str,
    *,
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
                sentence=" ".join((kind.__doc__ or "").split()),
                make=make,
                spec=spec or {},
                tiers=frozenset({"contract", *tiers}),
                entry_point=entry_point,
            )
        )
        return kind

    return listed


def breaks_in_sessions(rule: str) -> Callable[[type[_Class]], type[_Class]]:
    """
    List a class among those that break *rule* late or on rare input.

    Generated sessions and the monitors of every stream detect it; tests of one scene need not.
    """

    def listed(kind: type[_Class]) -> type[_Class]:
        breaks(rule)(kind)
        _SESSION_CASES.append(_CASES.pop())
        return kind

    return listed


def session_cases() -> tuple[FaultyCase, ...]:
    """Return the faulty backends that generated sessions must detect."""
    for family in SESSION_FAMILIES:
        importlib.import_module(f"faulty_backends.{family}")
    return tuple(_SESSION_CASES)


def all_cases() -> tuple[FaultyCase, ...]:
    """Return every faulty backend, in the order of the rules."""
    for family in FAMILIES:
        importlib.import_module(f"faulty_backends.{family}")
    return tuple(_CASES)


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
