"""Run one test of a rule, and turn anything that the backend does into an outcome."""

from __future__ import annotations

from contextlib import suppress
import importlib
import os
from pathlib import Path
import traceback
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.backend_under_test import LoadFailure
from wlk_conformance.calls import Escaped
from wlk_conformance.rules import BY_RULE, MONITORED, RULES, NotApplicable, TestOutcome
from wlk_conformance.sessions.generated_session import Violation
from wlk_conformance.side_effects import (
    changed_state,
    children,
    end_children,
    process_state,
    remaining,
    standard_output,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.rules import RuleTest

FRAMES = 4  # innermost stack frames shown of an unexpected exception
RECIPES = 4  # last inputs shown, so that a failure fits on one screen
SESSIONS_TEST = "test_generated_sessions_keep_every_rule"


def judge(
    declared: RuleTest,
    test: Callable[[BackendUnderTest], None],
    under_test: BackendUnderTest,
    note: Callable[[TestOutcome], None],
) -> TestOutcome:
    """
    Run *test* on *under_test* and return its outcome; only Ctrl-C is passed on.

    *note* is called with each violation as soon as it is found, and then with the outcome.
    """

    def note_findings() -> None:
        for finding in _findings(declared, under_test):
            note(finding)

    under_test.at_finding = note_findings
    try:
        check_applies(declared, under_test)
        _run(declared, test, under_test)
        outcome = TestOutcome.of(declared, "pass", "; ".join(under_test.notes))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 -- the suite's runner: backends raise anything
        outcome = _outcome_of(error, declared, under_test)
    note_findings()
    note(outcome)
    return outcome


def _run(
    declared: RuleTest, test: Callable[[BackendUnderTest], None], under_test: BackendUnderTest
) -> None:
    """Run *test*, and record what it wrote to standard output and which processes it left."""
    under_test.begin_rule()
    if "torch" in under_test.spec.requires:  # so that what a first load sets is seen
        with suppress(ImportError):
            importlib.import_module("torch")
    processes, state, directory = children(), process_state(), Path.cwd()
    with standard_output() as printed:
        try:
            needs_words = "G" not in declared.kinds and "F" not in declared.kinds
            if needs_words and not under_test.is_recognisable:
                raise NotApplicable(
                    "needs known words: use --model digits, or --words digits if the model "
                    "recognises them"
                )
            test(under_test)
        finally:
            under_test.end_rule()
            under_test.calls.end_fork("a call")
    under_test.violations += under_test.left_behind(printed())
    if changes := changed_state(state, process_state()):
        kept = f"a load or a call, perhaps one that failed, changed its process: {changes[0]}"
        under_test.violations.append(Violation("PKG-06", kept))
        os.chdir(directory)  # so that other rules judge other faults
    under_test.started += [(child, declared) for child in children() - processes]


def _findings(declared: RuleTest, under_test: BackendUnderTest) -> list[TestOutcome]:
    """
    Return what monitors found in the last test, as one failed outcome for each rule.

    A rule is reported when it is first found broken, and once more when a generated session that
    breaks it is known.
    """
    outcomes = []
    for violation in under_test.violations:
        rule, advice = violation.rule, violation.advice
        if (rule, bool(advice)) in under_test.reported:
            continue
        under_test.reported |= {(rule, False), (rule, bool(advice))}
        where = f" ({violation.stream})" if violation.stream else ""
        scene = "a generated session" if advice else f"the test {declared.name} of {declared.id}"
        detail = f"in {scene}: {violation.message}{where}"
        monitor = attrs.evolve(MONITORED.get(rule, RULES[rule]), name=f"monitor of {rule}")
        # What reproduces it is the test or generated session in which a monitor found it, not the
        # rule's own tests.
        reproducer = "" if advice else declared.id
        outcomes.append(_failed(monitor, detail, under_test, advice, reproducer=reproducer))
    return outcomes


def leaked_processes(under_test: BackendUnderTest) -> list[TestOutcome]:
    """End the child processes that outlived the backend, and return them as a LIFE-10 failure."""
    started = dict(under_test.started)
    leaked = [child for child in remaining(frozenset()) if child in started] if started else []
    if not leaked:
        return []
    under_test.violations[:] = [Violation("LIFE-10", end_children(leaked))]
    return _findings(started[leaked[0]], under_test)


def check_applies(declared: RuleTest, under_test: BackendUnderTest) -> None:
    """Raise NotApplicable if it is known before the test runs that it does not apply."""
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
    return _failed(declared, detail, under_test, "at " + "\n   ".join(lines))


def _failed(
    declared: RuleTest,
    detail: str,
    under_test: BackendUnderTest,
    trailer: str,
    *,
    reproducer: str | None = None,
) -> TestOutcome:
    """Return a failure; the tests of *reproducer* reproduce it, by default those of its rule."""
    parts = [f"{declared.id}  {declared.sentence}", f"result: {detail}"]
    if under_test.recipes:
        parts.append("input: " + "\n       ".join(under_test.recipes[-RECIPES:]))
    if under_test.call_logs:
        count = len(under_test.call_logs)
        parts.append(f"calls of the last of {count} streams:\n{under_test.call_logs[-1]}")
    if declared.causes:
        parts.append("usual causes:\n" + "\n".join(f"  - {cause}" for cause in declared.causes))
    if reproducer != "":
        parts.append(f"reproduce with: {under_test.command} --rule {reproducer or declared.id}")
    parts.append(trailer)
    explanation, is_first = "\n".join(parts), declared.is_first
    line = detail.strip().splitlines()[0].rstrip()
    return TestOutcome.of(declared, "fail", line, explanation=explanation, is_first=is_first)
