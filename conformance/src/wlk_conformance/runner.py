"""Running one test of a rule, so that anything a backend does becomes an outcome."""

from __future__ import annotations

from pathlib import Path
import traceback
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.backend_under_test import LoadFailure
from wlk_conformance.calls import Escaped
from wlk_conformance.rules import BY_RULE, RULES, NotApplicable, TestOutcome
from wlk_conformance.sessions.session import Violation
from wlk_conformance.side_effects import children, end_children, remaining, standard_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.rules import RuleTest

FRAMES = 4  # innermost frames shown of an exception that no rule expects
RECIPES = 4  # inputs shown, the last ones, so that a failure fits on a screen
SESSIONS_TEST = "test_generated_sessions_keep_every_rule"


def judge(
    declared: RuleTest,
    test: Callable[[BackendUnderTest], None],
    under_test: BackendUnderTest,
    note: Callable[[TestOutcome], None],
) -> TestOutcome:
    """
    Run *test* on *under_test* and return its outcome, whatever it raises but Ctrl-C.

    *note* gets each violation that is found in it as soon as it is known, and the outcome.
    """

    def take_findings() -> None:
        for finding in _findings(declared, under_test):
            note(finding)

    under_test.at_finding = take_findings
    try:
        check_applies(declared, under_test)
        _run(declared, test, under_test)
        outcome = TestOutcome.of(declared, "pass", "; ".join(under_test.notes))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 -- the suite's runner: any may come
        outcome = _outcome_of(error, declared, under_test)
    take_findings()
    note(outcome)
    return outcome


def _run(
    declared: RuleTest, test: Callable[[BackendUnderTest], None], under_test: BackendUnderTest
) -> None:
    """Run *test*, and take what it left on standard output and among the processes."""
    under_test.begin_rule()
    processes = children()
    with standard_output() as printed:
        try:
            is_known = "G" in declared.kinds or "F" in declared.kinds
            if not is_known and not under_test.is_recognisable:
                raise NotApplicable(
                    "needs known words: use --model digits, or --words digits if the model "
                    "recognises them"
                )
            test(under_test)
        finally:
            under_test.end_rule()
            under_test.calls.end_copy("a call")
    under_test.violations += under_test.left_behind(printed())
    under_test.started += [(child, declared) for child in children() - processes]


def _findings(declared: RuleTest, under_test: BackendUnderTest) -> list[TestOutcome]:
    """
    Return the violations that monitors found in the test that ran last, one outcome for each rule.

    A rule is reported the first time that it is found, because one is enough, and once more with
    the session that breaks it.
    """
    outcomes = []
    for violation in under_test.violations:
        rule, advice = violation.rule, violation.advice
        if (rule, bool(advice)) in under_test.found:
            continue
        under_test.found |= {(rule, False), (rule, bool(advice))}
        where = f" ({violation.stream})" if violation.stream else ""
        scene = "a session" if advice else f"the test {declared.name} of {declared.id}"
        detail = f"in {scene}: {violation.message}{where}"
        monitor = attrs.evolve(RULES[rule], name=f"monitor of {rule}")
        # What a monitor found is repeated by the test in which it was found, or by the session.
        repeated = "" if advice else declared.id
        outcomes.append(_failed(monitor, detail, under_test, after=advice, repeated=repeated))
    return outcomes


def leaked_processes(under_test: BackendUnderTest) -> list[TestOutcome]:
    """Return LIFE-10 for children that still run after the backend was closed, and end them."""
    started = dict(under_test.started)
    leaked = [child for child in remaining(frozenset()) if child in started] if started else []
    if not leaked:
        return []
    under_test.violations[:] = [Violation("LIFE-10", end_children(leaked))]
    return _findings(started[leaked[0]], under_test)


def check_applies(declared: RuleTest, under_test: BackendUnderTest) -> None:
    """Raise NotApplicable for a test that does not apply, as far as that is known before it."""
    is_left_out = under_test.replay is not None and declared.name != SESSIONS_TEST
    if is_left_out or (under_test.rules and declared.id not in under_test.rules):
        raise NotApplicable(BY_RULE, "not selected")
    if declared.requires and not under_test.has(declared.requires):
        reason = f"{under_test.spec.name} does not declare {declared.requires}"
        raise NotApplicable(reason, "not declared")
    if declared.tier not in under_test.tiers:
        reason = f"part of the {declared.tier} tier: --{declared.tier}"
        raise NotApplicable(reason, "not selected")


def _outcome_of(
    error: BaseException, declared: RuleTest, under_test: BackendUnderTest
) -> TestOutcome:
    if isinstance(error, NotApplicable):
        return TestOutcome.of(declared, "n/a", str(error), absence=error.absence)
    if isinstance(error, LoadFailure):
        return TestOutcome.of(declared, "fail", f"the backend could not be loaded: {error}")
    is_own = isinstance(error, AssertionError)
    frames = traceback.extract_tb(error.__traceback__)[-1 if is_own else -FRAMES :]
    detail = str(error) or f"does not hold: {frames[-1].line}"
    if not isinstance(error, AssertionError | Escaped):
        detail = f"{type(error).__name__}: {error}"
    lines = [f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}" for frame in frames]
    return _failed(declared, detail, under_test, after="at " + "\n   ".join(lines))


def _failed(
    declared: RuleTest,
    detail: str,
    under_test: BackendUnderTest,
    *,
    after: str,
    repeated: str | None = None,
) -> TestOutcome:
    """Return a failure; *repeated* is the rule whose tests show it again, by default its own."""
    parts = [f"{declared.id}  {declared.sentence}", f"result: {detail}"]
    if under_test.recipes:
        parts.append("input: " + "\n       ".join(under_test.recipes[-RECIPES:]))
    if under_test.call_logs:
        count = len(under_test.call_logs)
        parts.append(f"calls of the last of {count} streams:\n{under_test.call_logs[-1]}")
    if declared.causes:
        parts.append("usual causes:\n" + "\n".join(f"  - {cause}" for cause in declared.causes))
    if repeated != "":
        parts.append(f"repeat it: {under_test.command} --rule {repeated or declared.id}")
    parts.append(after)
    explanation, is_first = "\n".join(parts), declared.is_first
    line = detail.strip().splitlines()[0].rstrip()
    return TestOutcome.of(declared, "fail", line, explanation=explanation, is_first=is_first)
