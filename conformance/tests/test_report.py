from __future__ import annotations

import json

import pytest

from wlk_conformance.report import Report, RuleResult, is_newer, judge
from wlk_conformance.rules import TestOutcome


def outcomes(*statuses):
    """Return one outcome of a test for each status."""
    return [
        TestOutcome(rule="SIL-02", test=f"test_{index}", status=status, detail=f"because {index}")
        for index, status in enumerate(statuses)
    ]


def report(*rows):
    """Return the report of a toy with these rules."""
    return Report(
        backend="toy",
        distribution="wlk-toy",
        version="1.0",
        model="tiny",
        options={"beam": 2},
        suite="1.0",
        rules=[
            RuleResult(id=id_, outcome=outcome, sentence="It is so.", detail=detail)
            for id_, outcome, detail in rows
        ],
    )


@pytest.mark.parametrize(
    ("statuses", "deviation", "is_advisory", "expected"),
    [
        (["pass", "pass"], None, False, ("pass", "because 0; because 1")),
        (["pass", "fail"], None, False, ("fail", "because 1")),
        (["n/a", "pass"], None, False, ("pass", "because 1")),
        (["n/a", "n/a"], None, False, ("n/a", "because 0")),
        (["pass", "fail"], "see 7", False, ("deviation", "see 7")),
        (["n/a"], "see 7", False, ("n/a", "because 0")),
        (["fail"], None, True, ("advisory", "because 0")),
        (["pass"], None, True, ("pass", "because 0")),
    ],
)
def test_the_tests_of_a_rule_come_to_one_outcome(statuses, deviation, is_advisory, expected):
    """Any failure is the rule's; a deviation or a pin turns it into what was announced."""
    came = judge(
        "SIL-02", "It is so.", outcomes(*statuses), deviation=deviation, is_advisory=is_advisory
    )

    assert expected == (came.outcome, came.detail)


def test_a_deviation_from_a_rule_that_holds_is_stale():
    """A rule that holds does not go with a declared deviation."""
    came = judge("SIL-02", "It is so.", outcomes("pass", "pass"), deviation="see 7")

    assert "stale" == came.outcome
    assert "see 7" in came.detail


@pytest.mark.parametrize(
    ("rows", "verdict", "summary"),
    [
        ([("A-1", "pass", "")], "compliant", "COMPLIANT"),
        (
            [("A-1", "pass", ""), ("A-2", "deviation", "x"), ("A-3", "advisory", "y")],
            "compliant",
            "COMPLIANT with 1 deviation and 1 advisory finding",
        ),
        ([("A-1", "pass", ""), ("A-2", "fail", "x")], "not compliant", "NOT COMPLIANT: A-2"),
        ([("A-1", "pass", ""), ("A-2", "stale", "x")], "not compliant", "NOT COMPLIANT: A-2"),
        ([("A-1", "n/a", "x")], "not compliant", "NOT COMPLIANT: no rule was judged"),
    ],
    ids=["all pass", "declared", "failed", "stale", "nothing judged"],
)
def test_the_verdict(rows, verdict, summary):
    """What is declared complies; a failure, a stale deviation and no judgement at all do not."""
    came = report(*rows)

    assert (verdict, summary) == (came.verdict, came.summary)


def test_the_json_document():
    """The JSON report has exactly the pinned fields."""
    came = json.loads(report(("A-1", "fail", "x")).as_json())

    assert {
        "backend": "toy",
        "distribution": "wlk-toy",
        "version": "1.0",
        "model": "tiny",
        "options": {"beam": 2},
        "suite": "1.0",
        "verdict": "not compliant",
        "rules": [{"id": "A-1", "outcome": "fail", "sentence": "It is so.", "detail": "x"}],
    } == came


def test_the_table_fits():
    """A row says the sentence of a rule that passes and the reason of any other, in its width."""
    table = report(("A-1", "pass", ""), ("A-2", "n/a", "x" * 200)).as_table(width=60).splitlines()

    assert all(len(line) <= 60 for line in table)
    assert "  A-1      pass       It is so." == table[1]
    assert table[2].endswith("...")


def test_the_markdown_escapes_bars():
    """A bar in a sentence does not end its cell."""
    assert "a \\| b" in report(("A-1", "fail", "a | b")).as_markdown()


def test_versions_compare_by_number():
    """Suite 1.10 is newer than 1.9."""
    assert is_newer("1.10", "1.9")
    assert not is_newer("1.0", "1.0")
