"""What a sinner is, and which rules the suite finds it breaking."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
import importlib
import io
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from wlk_conformance.report import judge_all
from wlk_conformance.rules import SUITE_VERSION, rule_tests
from wlk_conformance.runner import examine
from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_conformance.subject import Subject
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wlk_conformance.report import RuleResult
    from wlk_core import Backend, Emission

__all__ = ["Sin", "SinfulBackend", "Sinner", "all_sinners", "broken_rules", "sinner"]

FAMILIES = (
    "packaging", "audio_in", "text_out", "times", "silence", "speakers", "lifecycle", "sharing",
    "failure", "resources", "quality",
)  # fmt: skip


class Sin:
    """
    A stream of the reference with something wrong: a subclass replaces what it does wrong.

    `stream` is the sound stream below, `backend` the backend that all streams share.
    """

    def __init__(self, stream: Any, backend: SinfulBackend, language: str | None = None) -> None:
        self.stream = stream
        self.backend = backend
        self.language = language

    def __getattr__(self, name: str) -> Any:
        """Return what the sound stream has."""
        return getattr(self.stream, name)

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Return *emission*, of the call named, as the sinner hands it out."""
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


@attrs.define
class SinfulBackend(ScriptedBackend):
    """The reference with streams of one sin; `marks` holds what should not be on a backend."""

    sin: type[Sin] = Sin
    marks: dict[str, Any] = attrs.field(factory=dict)

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Return a sinful stream."""
        stream = super().create_processor(language=language, task=task, **options)
        return self.sin(stream, self, language)


@attrs.frozen(kw_only=True)
class Sinner:
    """
    A backend that breaks one rule.

    Attributes:
        name: what it does.
        rule: the rule that catches it, and the only one.
        sentence: what it does, for the table.
        defects: the defects of earlier code that it repeats.
        make: loads it.
        spec: what its declaration says otherwise.
        tiers: the tiers that it takes to catch it.
        entry_point: its plugin module, where one is needed.

    """

    name: str
    rule: str
    sentence: str
    defects: str = ""
    make: Callable[..., Backend]
    spec: Mapping[str, Any] = attrs.field(factory=dict)
    tiers: frozenset[str] = frozenset({"contract"})
    entry_point: str | None = None

    def subject(self) -> Subject:
        """Return it for examination."""
        spec = attrs.evolve(SCRIPTED_SPEC, **self.spec)

        def load(model: str | None = None, **options: Any) -> Backend:
            resolved = spec.backend_options(options)
            return self.make(model or spec.default_model, **resolved)

        return Subject(spec=spec, load=load, tiers=self.tiers, entry_point=self.entry_point)


_Made = TypeVar("_Made")
_SINNERS: list[Sinner] = []


def sinner(
    rule: str,
    *,
    defects: str = "",
    spec: Mapping[str, Any] | None = None,
    tiers: Iterable[str] = (),
    entry_point: str | None = None,
) -> Callable[[type[_Made]], type[_Made]]:
    """Declare a subclass of Sin, or of SinfulBackend, as a sinner against *rule*."""

    def declare(kind: type[_Made]) -> type[_Made]:
        def make(model: str | None = None, **_options: Any) -> Backend:
            if issubclass(kind, SinfulBackend):
                SCRIPTED_SPEC.load(model).close()  # refuses a model that it has not
                return kind()
            if issubclass(kind, Sin):
                SCRIPTED_SPEC.load(model).close()
                return SinfulBackend(sin=kind)
            loaded: Backend = kind.load(model)  # type: ignore[attr-defined]  # a class with a loader
            return loaded

        _SINNERS.append(
            Sinner(
                name=kind.__name__,
                rule=rule,
                sentence=" ".join((kind.__doc__ or "").split()),
                defects=defects,
                make=make,
                spec=spec or {},
                tiers=frozenset({"contract", *tiers}),
                entry_point=entry_point,
            )
        )
        return kind

    return declare


def all_sinners() -> tuple[Sinner, ...]:
    """Return every sinner, in the order of the rules."""
    for family in FAMILIES:
        importlib.import_module(f"wlk_conformance.sinners.{family}")
    return tuple(_SINNERS)


def broken_rules(subject: Subject) -> dict[str, RuleResult]:
    """Run the suite on *subject* in this process; return the rules that it breaks."""
    suite = BackendConformance()
    tests = list(rule_tests(BackendConformance))
    try:
        with redirect_stdout(io.StringIO()):
            outcomes = [
                examine(declared, partial(test, suite), subject) for declared, test in tests
            ]
    finally:
        subject.close()
    results = judge_all(
        [declared for declared, _ in tests],
        outcomes,
        deviations=subject.spec.deviations,
        suite=SUITE_VERSION,
    )
    return {result.id: result for result in results if result.outcome in ("fail", "stale")}
