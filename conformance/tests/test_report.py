from __future__ import annotations

import json

import attrs
import pytest

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.report import Report, RuleResult, judge_all
from wlk_conformance.rules import RuleTest, TestOutcome
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend


def outcomes(*statuses):
    """Return one outcome of a test for each status."""
    return [
        TestOutcome(rule="SIL-02", test=f"test_{index}", status=status, detail=f"because {index}")
        for index, status in enumerate(statuses)
    ]


def judged(outcomes_, *, deviation=None, since="1.0"):
    """Return the result of the one rule that *outcomes_* belong to, by suite 1.0."""
    tests = [
        RuleTest(id="SIL-02", name=outcome.test, sentence="It is so.", since=since)
        for outcome in outcomes_
    ]
    deviations = {} if deviation is None else {"SIL-02": deviation}
    (result,) = judge_all(tests, outcomes_, deviations=deviations, suite="1.0")
    return result


def report(*rows):
    """Return the report of a toy with these rules."""
    spec, owner = attrs.evolve(SCRIPTED_SPEC, name="toy"), {"distribution": "wlk-toy"}
    return Report(
        under_test=BackendUnderTest(
            spec, ScriptedBackend, "tiny", {"beam": 2}, version="1.0", **owner
        ),
        suite="1.0",
        rules=[
            RuleResult(
                id=id_,
                outcome=outcome,
                sentence="It is so.",
                detail=detail,
                is_first=detail == "first",
                absence=detail if outcome == "n/a" else None,
            )
            for id_, outcome, detail in rows
        ],
    )


@pytest.mark.parametrize(
    ("statuses", "deviation", "since", "expected"),
    [
        (["pass", "pass"], None, "1.0", ("pass", "because 0; because 1")),
        (["pass", "fail"], None, "1.0", ("fail", "because 1")),
        (["n/a", "pass"], None, "1.0", ("pass", "because 1")),
        (["n/a", "n/a"], None, "1.0", ("n/a", "because 0")),
        (["pass", "fail"], "see 7", "1.0", ("deviation", "see 7")),
        (["n/a"], "see 7", "1.0", ("n/a", "because 0")),
        (["pass", "pass"], "see 7", "1.0",
         ("stale", "the rule holds; remove the declared deviation: see 7")),
        (["fail"], None, "1.1", ("advisory", "because 0")),
        (["pass"], None, "1.1", ("pass", "because 0")),
    ],
)  # fmt: skip
def test_the_tests_of_a_rule_come_to_one_outcome(statuses, deviation, since, expected):
    """One failure fails the rule; a declared deviation or a pin changes the outcome."""
    result = judged(outcomes(*statuses), deviation=deviation, since=since)

    assert (result.outcome, result.detail) == expected


@pytest.mark.parametrize(
    ("rows", "verdict", "summary"),
    [
        ([("A-1", "pass", "")], "compliant", "COMPLIANT (1 of 1 rules tested)"),
        (
            [("A-1", "pass", ""), ("A-2", "n/a", "x")],
            "compliant",
            "COMPLIANT (1 of 2 rules tested)",
        ),
        (
            [("A-1", "pass", ""), ("A-2", "deviation", "x"), ("A-3", "advisory", "y")],
            "compliant",
            "COMPLIANT (3 of 3 rules tested) with 1 deviation and 1 advisory finding",
        ),
        ([("A-1", "pass", ""), ("A-2", "fail", "x")], "not compliant", "NOT COMPLIANT: A-2"),
        ([("A-1", "pass", ""), ("A-2", "stale", "x")], "not compliant", "NOT COMPLIANT: A-2"),
        ([("A-1", "n/a", "x")], "not compliant", "NOT COMPLIANT: no rule was judged"),
        (
            [
                ("A-1", "fail", "x"),
                ("A-2", "fail", "hung: no call returned"),
                ("A-3", "fail", "not reached: hung in A-2"),
                ("A-4", "fail", "not reached: hung in A-2"),
            ],
            "not compliant",
            "NOT COMPLIANT: A-1, A-2; 2 of 4 rules not reached: hung in A-2",
        ),
        (
            [("A-1", "fail", "x"), ("B-1", "fail", "first"), ("C-1", "fail", "y")],
            "not compliant",
            "NOT COMPLIANT: B-1; and, perhaps as a result, A-1, C-1",
        ),
    ],
)
def test_the_verdict(rows, verdict, summary):
    """Declared deviations comply; a failure, a stale deviation and an empty run do not."""
    reported = report(*rows)

    assert (reported.verdict, reported.summary) == (verdict, summary)


def test_the_json_document():
    """The JSON report has the pinned fields, how much was tested, and what was not."""
    document = json.loads(report(("A-1", "fail", "x")).as_json())

    assert document == {
        "backend": "toy",
        "distribution": "wlk-toy",
        "version": "1.0",
        "model": "tiny",
        "options": {"beam": 2},
        "suite": "1.0",
        "verdict": "not compliant",
        "rules": [{"id": "A-1", "outcome": "fail", "sentence": "It is so.", "detail": "x"}],
        "summary": "NOT COMPLIANT: A-1",
        "tested": 1,
        "untried": [],
        "not_tested": {"not declared": [], "not selected": [], "not testable": []},
    }


def test_a_rule_that_was_not_reached_fails():
    """Tests after a hang fail their rule, which has no row in the table."""
    outcomes_ = [
        TestOutcome(rule="SIL-02", test="test_0", status="pass"),
        TestOutcome(
            rule="SIL-02", test="test_1", status="fail", detail="not reached: hung in IN-01"
        ),
    ]
    result = judged(outcomes_, deviation="declared")
    table = report(("IN-01", "fail", "hung"), ("SIL-02", "fail", result.detail)).as_table(width=80)

    assert (result.outcome, result.is_reached) == ("fail", False)
    assert "SIL-02" not in table
    assert table.endswith("NOT COMPLIANT: IN-01; 1 of 2 rules not reached: hung in IN-01")


@pytest.mark.parametrize(
    ("absences", "expected"),
    [
        (["not declared", "not declared"], "not declared"),
        (["not declared", "not selected"], "not selected"),
        (["not selected", "not testable"], "not testable"),
    ],
)
def test_why_a_rule_was_not_tested(absences, expected):
    """Of several reasons, the one that the author can do most about is reported."""
    outcomes_ = [
        TestOutcome(rule="SIL-02", test=f"test_{index}", status="n/a", absence=absence)
        for index, absence in enumerate(absences)
    ]

    assert judged(outcomes_).absence == expected


def test_a_newer_test_of_a_known_rule_is_advisory():
    """A pinned suite judges by the tests that it had; a test added later is only advisory."""
    tests = [
        RuleTest(id="SIL-02", name="test_0", sentence="It is so."),
        RuleTest(id="SIL-02", name="test_1", sentence="It is always so.", since="2.0"),
    ]

    def outcome(*statuses):
        results = judge_all(tests, outcomes(*statuses), deviations={}, suite="1.0")
        return [result.outcome for result in results]

    assert outcome("pass", "fail") == ["advisory"]
    assert outcome("fail", "fail") == ["fail"]


def test_the_policies_and_options_that_were_not_judged_are_named():
    """The lines before the summary say which policy was judged, and what few rules tried."""
    every = report(("A-1", "pass", ""))
    one = attrs.evolve(
        every, under_test=attrs.evolve(every.under_test, options={"policy": "alignatt"})
    )

    assert every.closing(100)[0] == (
        "  policy local-agreement, and in some rules also: policy=alignatt, "
        "policy=native, policy=long-form,"
    )
    assert one.closing(100)[:-1] == [
        "  policy alignatt, and in some rules also: tick_seconds=2.0",
        "  not tried with another value: policy=local-agreement, policy=native, policy=long-form",
    ]
    assert json.loads(one.as_json())["untried"] == [
        "policy=local-agreement", "policy=native", "policy=long-form",
    ]  # fmt: skip


def test_a_run_that_was_ended_is_not_compliant():
    """Rules that passed do not make a verdict, and the summary says why there is none."""
    ended = attrs.evolve(report(("A-1", "pass", ""), ("A-2", "fail", "why")), ended_by="SIGTERM")

    assert (ended.verdict, ended.is_compliant) == ("not compliant", False)
    assert ended.summary == (
        "NOT FINISHED: SIGTERM ended the run; 2 of 2 rules were judged, failed: A-2"
    )
