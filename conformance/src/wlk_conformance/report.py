"""Turn the outcomes of tests into a verdict, a table and a JSON report."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Literal, get_args

import attrs

from wlk_conformance.rules import BY_RULE, MONITORED_SINCE, NOT_REACHED, Absence, rule_tests
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.rules import RuleTest, TestOutcome

Outcome = Literal["pass", "fail", "deviation", "stale", "n/a", "advisory"]
BROKEN = ("fail", "stale")  # outcomes that no compliant backend has
REASONS: dict[Absence, str] = {
    "not declared": "not declared by the backend",
    "not selected": "not selected",
    "not testable": "not testable by the suite",
}
PINNED = ("id", "outcome", "sentence", "detail")  # fields of a rule in the JSON report, for ever


@attrs.frozen(kw_only=True)
class RuleResult:
    """The outcome of a rule; `is_first` means that its failure makes other rules fail."""

    id: str
    outcome: Outcome
    sentence: str
    detail: str = ""
    absence: Absence | None = None  #: why it is n/a
    is_first: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the run reached the rule."""
        return not self.detail.startswith(NOT_REACHED)


@attrs.frozen(kw_only=True)
class Report:
    """The results of the suite on one backend with one model."""

    under_test: BackendUnderTest
    suite: str
    rules: Sequence[RuleResult]
    ended_by: str = ""  #: what ended the run before its last test, such as "SIGTERM"

    @property
    def is_compliant(self) -> bool:
        """Whether a rule passed, and every failure is a declared deviation or advisory."""
        outcomes = {result.outcome for result in self.rules}
        return not self.ended_by and "pass" in outcomes and not outcomes & set(BROKEN)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return (self.under_test.part or "compliant") if self.is_compliant else "not compliant"

    @property
    def tested(self) -> int:
        """The number of rules that were tested."""
        return sum(result.outcome != "n/a" for result in self.rules)

    def not_tested(self, absence: Absence) -> list[str]:
        """Return the ids of the rules that were not tested, for the reason *absence*."""
        return [result.id for result in self.rules if result.absence == absence]

    @classmethod
    def of(
        cls,
        under_test: BackendUnderTest,
        outcomes: Sequence[TestOutcome],
        *,
        suite: str,
        ended_by: str = "",
    ) -> Report:
        """Return the report on the *outcomes* of tests, judged by the suite version *suite*."""
        deviations = under_test.spec.deviations
        # All tests, because a monitor may report a rule that is not under test.
        tests = [test for test, _ in rule_tests(BackendConformance)]
        rules = judge_all(tests, outcomes, deviations=deviations, suite=suite)
        return cls(under_test=under_test, suite=suite, rules=rules, ended_by=ended_by)

    @property
    def model(self) -> str | None:
        """The model, by default that of the spec."""
        return self.under_test.chosen_model

    def as_json(self) -> str:
        """Return the report as the JSON document that ``--report`` writes."""
        document = {
            "backend": self.under_test.spec.name,
            "distribution": self.under_test.distribution,
            "version": self.under_test.version,
            "model": self.model,
            "options": dict(self.under_test.options),
            "suite": self.suite,
            "verdict": self.verdict,
            "rules": [{name: getattr(rule, name) for name in PINNED} for rule in self.rules],
            "summary": self.summary,
            "tested": self.tested,
            "untried": self.under_test.untried,
            "not_tested": {kind: self.not_tested(kind) for kind in get_args(Absence)},
        }
        return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"

    def as_table(self, *, width: int = 100) -> str:
        """Return a line for each rule that was reached, for a terminal of *width* columns."""
        rows = [row(result, width) for result in self.rules if is_shown(result)]
        return "\n".join([heading(self.under_test, width), *rows, *self.closing(width)])

    def closing(self, width: int) -> list[str]:
        """Return the lines after those of the rules: what was not tested, and the summary."""
        lines: list[str] = []
        for absence, reason in REASONS.items():
            lines += _wrapped(f"  not tested, {reason}: ", self.not_tested(absence), width)
        if not self.under_test.part:
            for head, names in (
                (
                    f"  policy {self.under_test.policy}, and in some rules also: ",
                    self.under_test.variants,
                ),
                ("  not tried with another value: ", self.under_test.untried),
            ):
                lines += _wrapped(head, names, width)
        return [*lines, f"  {self.summary}"]

    @property
    def summary(self) -> str:
        """The verdict and how much was tested, on one line."""
        failed = [result for result in self.rules if result.outcome in BROKEN]
        first = [result.id for result in failed if result.is_reached and result.is_first]
        broken = [result.id for result in failed if result.is_reached and not result.is_first]
        if self.ended_by:
            judged = sum(result.is_reached for result in self.rules)
            found = ", ".join(first + broken) or "none"
            return (
                f"NOT FINISHED: {self.ended_by} ended the run; {judged} of {len(self.rules)} rules "
                f"were judged, failed: {found}"
            )
        if failed:
            text = f"NOT COMPLIANT: {', '.join(first or broken)}"
            if first and broken:
                text += f"; and, perhaps as a result, {', '.join(broken)}"
            if missed := [result.detail for result in failed if not result.is_reached]:
                reason = missed[-1].removeprefix(NOT_REACHED)
                text += f"; {len(missed)} of {len(self.rules)} rules not reached: {reason}"
            return text
        if not self.is_compliant:
            return "NOT COMPLIANT: no rule was judged"
        counts = [
            self._counted("deviation", "deviation"),
            self._counted("advisory", "advisory finding"),
        ]
        exceptions = " and ".join(filter(None, counts))
        claim = self.under_test.part or "COMPLIANT"
        verdict = f"{claim} ({self.tested} of {len(self.rules)} rules tested)"
        return f"{verdict} with {exceptions}" if exceptions else verdict

    def _counted(self, outcome: Outcome, noun: str) -> str:
        """Return the number of rules with *outcome* and the *noun* for them, "" for none."""
        count = sum(result.outcome == outcome for result in self.rules)
        if not count:
            return ""
        return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _wrapped(head: str, names: Iterable[str], width: int) -> list[str]:
    """Return the lines of a list that begins with *head*, none for an empty one."""
    return textwrap.wrap(
        ", ".join(names),
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def heading(under_test: BackendUnderTest, width: int) -> str:
    """Return the first line of a table: the backend and its model."""
    named = ("wlk conformance:", under_test.spec.name, under_test.chosen_model)
    head = " ".join(filter(None, named))
    return f" {head} ".center(width, "=")


def is_shown(result: RuleResult) -> bool:
    """Return whether a table has a line for *result*: it was reached and not left out by --rule."""
    return result.is_reached and result.detail != BY_RULE


def row(result: RuleResult, width: int) -> str:
    """Return the line of a rule, in at most *width* columns."""
    text = result.sentence if result.outcome == "pass" else result.detail
    line = f"  {result.id:<8} {result.outcome:<10} {text or result.sentence}"
    return line if len(line) <= width else line[: width - 3] + "..."


def judge_all(
    tests: Iterable[RuleTest],
    outcomes: Sequence[TestOutcome],
    *,
    deviations: Mapping[str, str],
    suite: str,
) -> tuple[RuleResult, ...]:
    """
    Return a result for each rule that has outcomes, in the order of the contract.

    The sentence is that of the rule's first test.  One failure fails the rule, and a rule is n/a if
    all of its tests are.  A declared deviation is stale if the rule holds.  A failure is advisory
    if all failed tests are newer than *suite*, the version that the author pinned.
    """
    sentences: dict[str, str] = {}
    since: dict[str, str] = {}
    for test in tests:
        sentences.setdefault(test.id, test.sentence)
        since[test.name] = test.since
    results = []
    for rule, sentence in sentences.items():
        of_rule = [each for each in outcomes if each.rule == rule]
        if not of_rule:
            continue
        failed = [each for each in of_rule if each.status == "fail"]
        passed = [each for each in of_rule if each.status == "pass"]
        absent = [each for each in of_rule if each.status == "n/a"]
        reached = [each for each in failed if not each.detail.startswith(NOT_REACHED)]
        deviation = deviations.get(rule)
        absence: Absence | None = None
        outcome: Outcome
        if reached and deviation is not None:
            outcome, detail = "deviation", deviation
        elif failed:
            added = (_version(since.get(each.test, MONITORED_SINCE)) for each in failed)
            is_newer = all(version > _version(suite) for version in added)
            outcome = "advisory" if reached and is_newer else "fail"
            detail = (reached or failed)[0].detail
        elif passed and deviation is not None:
            outcome, detail = "stale", f"the rule holds; remove the declared deviation: {deviation}"
        elif passed:
            outcome, detail = "pass", "; ".join(filter(None, (each.detail for each in passed)))
        else:
            outcome, detail = "n/a", absent[0].detail
            # Of several reasons, the one that the author can do most about is reported.
            kinds = {each.absence for each in absent}
            order: tuple[Absence, ...] = ("not testable", "not selected", "not declared")
            absence = next(kind for kind in order if kind in kinds)
        results.append(
            RuleResult(
                id=rule,
                outcome=outcome,
                sentence=sentence,
                detail=detail,
                absence=absence,
                is_first=any(each.is_first for each in of_rule),
            )
        )
    return tuple(results)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
