"""Calls that hang or end the process, as outcomes."""

from __future__ import annotations

import pytest

from wlk_conformance.calls import CallRecord
from wlk_conformance.rules import RuleTest, rule_ids
from wlk_conformance.suite_run import RULES_OF_CALLS, stopped

PRINTED = """\

a line of the backend
Fatal Python error: Aborted

Current thread 0x00008f (most recent call first):
  File "/site/engine.py", line 7 in run
  File "/src/wlk_conformance/calls.py", line 190 in call
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy
"""


@pytest.mark.parametrize(
    ("call", "broken", "detail"),
    [
        ("reset", ("LIFE-06", "stop in reset"), " in reset of stream 0, action 12 of the session"),
        ("", ("COM-01", "test_x"), ""),  # between calls: the rule of the test
    ],
)
def test_a_stop_breaks_the_rule_of_its_call(call, broken, detail):
    """The call, its stream, its number in the session and the last lines are named."""
    running = CallRecord(7, 12 if call else 0, call, "stream 0" if call else "")
    declared = RuleTest(id="COM-01", name="test_x", sentence="It is so.")
    outcome = stopped(declared, "the process ended with status 9", running, PRINTED)

    assert (*broken, "fail") == (outcome.rule, outcome.test, outcome.status)
    assert f"the process ended with status 9{detail}" == outcome.detail
    assert [
        "a line of the backend",
        "Fatal Python error: Aborted",
        "Current thread 0x00008f (most recent call first):",
        '  File "/site/engine.py", line 7 in run',
    ] == outcome.explanation.splitlines()[2:]


def test_every_call_has_a_rule_of_the_contract():
    """The rules of calls exist."""
    assert set(RULES_OF_CALLS.values()) <= rule_ids()
