"""Print the table of a run line by line, while its rules are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.report import heading, is_shown, judge_all, row
from wlk_conformance.rules import NOT_REACHED, SUITE_VERSION, rule_tests
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.report import Report, RuleResult
    from wlk_conformance.rules import TestOutcome


class LiveTable:
    """
    The table of a run, *width* columns wide, each line printed with *echo*.

    A rule has its line once all of its tests have ended, or at its first failure, with the
    explanation below it.  A rule that fails later, in the test of another one, has a second line.
    *begin* is told which rule is tested, and None before a line is printed.
    """

    def __init__(
        self, *, width: int, echo: Callable[[str], object], begin: Callable[[str | None], object]
    ) -> None:
        self._begin = begin
        self._width, self._echo = width, echo
        self._tests = [test for test, _ in rule_tests(BackendConformance)]
        self._outcomes: list[TestOutcome] = []
        self._printed: dict[str, str] = {}  # the outcome in the last line of each rule

    def begin(self, rule: str | None) -> None:
        """Note which rule is tested, None at the end."""
        self._begin(rule)

    def take(self, outcome: TestOutcome, under_test: BackendUnderTest) -> None:
        """Add the outcome of a test, or a finding of a monitor."""
        self._outcomes.append(outcome)
        tests = [test for test in self._tests if test.id == outcome.rule]
        of_rule = [each for each in self._outcomes if each.rule == outcome.rule]
        deviations = under_test.spec.deviations
        (result,) = judge_all(tests, of_rule, deviations=deviations, suite=SUITE_VERSION)
        is_judged = {test.name for test in tests} <= {each.test for each in of_rule}
        if outcome.status == "fail" or is_judged:
            self._print(result, under_test)
        is_explained = outcome.explanation and outcome.rule not in deviations
        if is_explained and not outcome.detail.startswith(NOT_REACHED):
            self._echo(f"\n{outcome.explanation}\n")

    def close(self, report: Report) -> None:
        """Print the lines that are still missing, and the summary."""
        for result in report.rules:
            self._print(result, report.under_test)
        for line in report.closing(self._width):
            self._echo(line)

    def _print(self, result: RuleResult, under_test: BackendUnderTest) -> None:
        if not is_shown(result) or self._printed.get(result.id) == result.outcome:
            return
        self._begin(None)
        if not self._printed:
            self._echo(heading(under_test, self._width))
        self._printed[result.id] = result.outcome
        self._echo(row(result, self._width))
