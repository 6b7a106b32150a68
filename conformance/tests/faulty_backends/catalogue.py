"""The catalogue of faults: the class of each, and the run of the suite that must detect it."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
import importlib
import io
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

from faulty_backends import base
from faulty_backends.base import FaultyCase, breaks
from faulty_backends.late_text import CountingStream
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import examine, findings
from wlk_conformance.sessions.campaign import SESSIONS, Campaign
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wlk_core import Emission

__all__ = ["CatalogueCase", "CountedStream", "catalogue_cases", "edited", "violates"]

#: What detects a fault: a test of its rule, or the sessions drawn from each of three seeds.
Detector = Literal["tests", "sessions"]
#: The modules of the catalogue and the class of their faults.
CLASSES = {
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
}

_Class = TypeVar("_Class")
_CATALOGUE: list[CatalogueCase] = []


@attrs.frozen(kw_only=True)
class CatalogueCase:
    """
    A backend that breaks a rule, and others perhaps.

    `kind` is the class of its fault, and `detector` what must detect it.
    """

    case: FaultyCase
    kind: str
    detector: Detector

    def is_detected_by_tests(self) -> bool:
        """Return whether a test of its rule fails, or what watches every stream of it reports."""
        under_test = self.case.under_test()
        suite = BackendConformance()
        try:
            with redirect_stdout(io.StringIO()):
                for declared, test in rule_tests(BackendConformance):
                    if declared.id != self.case.rule:
                        continue
                    outcome = examine(declared, partial(test, suite), under_test)
                    found = [outcome, *findings(declared, under_test)]
                    if any(o.rule == self.case.rule and o.status == "fail" for o in found):
                        return True
        finally:
            under_test.close()
        return False

    def is_detected_in_sessions(self, seed: int) -> bool:
        """Return whether a session of *seed* breaks its rule."""
        under_test = self.case.under_test()
        under_test.begin_rule()
        with redirect_stdout(io.StringIO()):
            return any(
                finding.violation.rule == self.case.rule
                for finding in Campaign(under_test, seed=seed).findings(SESSIONS)
            )


def violates(
    rule: str,
    *,
    detector: Detector = "tests",
    spec: Mapping[str, Any] | None = None,
    tiers: Iterable[str] = (),
    entry_point: str | None = None,
) -> Callable[[type[_Class]], type[_Class]]:
    """
    List a class in the catalogue among those that break *rule*; other rules may be broken as well.

    The arguments are those of `breaks`.
    """

    def listed(kind: type[_Class]) -> type[_Class]:
        breaks(rule, spec=spec, tiers=tiers, entry_point=entry_point)(kind)
        module = kind.__module__.rpartition(".")[2]
        case = base._CASES.pop()
        _CATALOGUE.append(CatalogueCase(case=case, kind=CLASSES[module], detector=detector))
        return kind

    return listed


def catalogue_cases() -> tuple[CatalogueCase, ...]:
    """Return the faulty backends of the catalogue, sorted by rule and name."""
    for module in CLASSES:
        importlib.import_module(f"faulty_backends.{module}")
    return tuple(sorted(_CATALOGUE, key=lambda listed: (listed.case.rule, listed.case.name)))


class CountedStream(CountingStream):
    """A stream that also counts the words that it committed before an emission."""

    words = 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Apply the fault, and count the words of the sound stream."""
        result = super().emitted(emission, call)
        self.words += len(emission.committed)
        return result

    def reset(self) -> None:
        """Begin anew."""
        self.stream.reset()
        self.words = self.silences = self.flushes = 0


def edited(emission: Emission, index: int, **changes: Any) -> Emission:
    """Return *emission* with changes to one token; the same where it has no such token."""
    tokens = list(emission.committed)
    if not -len(tokens) <= index < len(tokens):
        return emission
    tokens[index] = attrs.evolve(tokens[index], **changes)
    return emission.replace(committed=tuple(tokens))
