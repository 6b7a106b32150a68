"""From the outcomes of tests to a verdict: the table, the JSON file and the Markdown page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wlk_conformance.rules import RuleTest, TestOutcome

__all__ = ["Report", "RuleResult", "is_newer", "judge", "judge_all"]

Outcome = Literal["pass", "fail", "deviation", "stale", "n/a", "advisory"]
BROKEN = ("fail", "stale")  # outcomes that a compliant backend has none of


@attrs.frozen(kw_only=True)
class RuleResult:
    """What a rule came to."""

    id: str
    outcome: Outcome
    sentence: str
    detail: str = ""


@attrs.frozen(kw_only=True)
class Report:
    """The judgement of one backend with one model."""

    backend: str
    distribution: str
    version: str
    model: str | None
    options: Mapping[str, Any]
    suite: str
    rules: Sequence[RuleResult]

    @property
    def is_compliant(self) -> bool:
        """Whether rules were judged and none is broken that is not declared so."""
        outcomes = {result.outcome for result in self.rules}
        return "pass" in outcomes and not outcomes & set(BROKEN)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return "compliant" if self.is_compliant else "not compliant"

    def as_json(self) -> str:
        """Return the report as the JSON document that ``--report`` writes."""
        document = {
            "backend": self.backend,
            "distribution": self.distribution,
            "version": self.version,
            "model": self.model,
            "options": dict(self.options),
            "suite": self.suite,
            "verdict": self.verdict,
            "rules": [attrs.asdict(result) for result in self.rules],
        }
        return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"

    def as_table(self, *, width: int = 100) -> str:
        """Return the report as lines for a terminal of *width* columns."""
        head = " ".join(filter(None, ("wlk conformance:", self.backend, self.model)))
        lines = [f" {head} ".center(width, "=")]
        for result in self.rules:
            says = result.sentence if result.outcome == "pass" else result.detail
            row = f"  {result.id:<8} {result.outcome:<10} {says or result.sentence}"
            lines.append(row if len(row) <= width else row[: width - 3] + "...")
        return "\n".join([*lines, f"  {self.summary}"])

    @property
    def summary(self) -> str:
        """The verdict with what it rests on."""
        broken = [result.id for result in self.rules if result.outcome in BROKEN]
        if broken:
            return f"NOT COMPLIANT: {', '.join(broken)}"
        if not self.is_compliant:
            return "NOT COMPLIANT: no rule was judged"
        counts = [
            _plural(sum(result.outcome == kind for result in self.rules), noun)
            for kind, noun in (("deviation", "deviation"), ("advisory", "advisory finding"))
        ]
        shown = " and ".join(count for count in counts if count)
        return f"COMPLIANT with {shown}" if shown else "COMPLIANT"

    def as_markdown(self) -> str:
        """Return the report as a table that a project can put in its documentation."""
        title = f"`{self.backend}`" + (f" with `{self.model}`" if self.model else "")
        rows = [f"| {result.id} | {result.outcome} | {_cell(result)} |" for result in self.rules]
        return "\n".join(
            [
                f"### {title}",
                "",
                f"{self.distribution} {self.version}, suite {self.suite}: **{self.summary}**",
                "",
                "| Rule | Outcome | |",
                "|---|---|---|",
                *rows,
                "",
            ]
        )


def judge_all(
    tests: Iterable[RuleTest],
    outcomes: Sequence[TestOutcome],
    *,
    deviations: Mapping[str, str],
    suite: str,
) -> tuple[RuleResult, ...]:
    """
    Return one result a rule, in the contract's order, for the rules that have outcomes.

    The first test of a rule gives its sentence.
    """
    sentences: dict[str, str] = {}
    since: dict[str, str] = {}
    for test in tests:
        sentences.setdefault(test.id, test.sentence)
        since.setdefault(test.id, test.since)
    results = []
    for rule, sentence in sentences.items():
        of_rule = [outcome for outcome in outcomes if outcome.rule == rule]
        if of_rule:
            results.append(
                judge(
                    rule,
                    sentence,
                    of_rule,
                    deviation=deviations.get(rule),
                    is_advisory=is_newer(since[rule], suite),
                )
            )
    return tuple(results)


def judge(
    rule: str,
    sentence: str,
    outcomes: Sequence[TestOutcome],
    *,
    deviation: str | None = None,
    is_advisory: bool = False,
) -> RuleResult:
    """
    Return what the tests of one rule come to together.

    Any failure is the rule's, nothing but n/a is n/a.  A declared deviation must fail: where the
    rule holds it is stale.
    """
    failed = [outcome.detail for outcome in outcomes if outcome.status == "fail"]
    passed = [outcome.detail for outcome in outcomes if outcome.status == "pass"]
    absent = [outcome.detail for outcome in outcomes if outcome.status == "n/a"]
    outcome: Outcome
    if failed and deviation is not None:
        outcome, detail = "deviation", deviation
    elif failed and is_advisory:
        outcome, detail = "advisory", failed[0]
    elif failed:
        outcome, detail = "fail", failed[0]
    elif passed and deviation is not None:
        outcome, detail = "stale", f"the rule holds; remove the declared deviation: {deviation}"
    elif passed:
        outcome, detail = "pass", "; ".join(filter(None, passed))
    else:
        outcome, detail = "n/a", next(iter(absent), "")
    return RuleResult(id=rule, outcome=outcome, sentence=sentence, detail=detail)


def is_newer(since: str, suite: str) -> bool:
    """Tell whether a rule came after the suite version *suite*."""
    return _version(since) > _version(suite)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _plural(count: int, noun: str) -> str:
    if count == 0:
        return ""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _cell(result: RuleResult) -> str:
    text = result.sentence if not result.detail else f"{result.sentence} *{result.detail}*"
    return text.replace("|", "\\|")
