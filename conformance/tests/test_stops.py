"""Calls that hang or end the process, as outcomes."""

from __future__ import annotations

from wlk_conformance.calls import CallRecord
from wlk_conformance.rules import rule_tests
from wlk_conformance.stops import RULES_OF_CALLS, Stop, last_lines, not_judged
from wlk_conformance.suite import BackendConformance

TESTS = {declared.name: declared for declared, _ in rule_tests(BackendConformance)}
PRINTED = """\

a line of the backend
terminate called after throwing an instance of 'engine_error'
Fatal Python error: Aborted

Thread 0x00007f (most recent call first):
  File "/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00008f (most recent call first):
  File "/site/engine.py", line 7 in run
  File "/src/wlk_conformance/calls.py", line 190 in call
  File "/site/_pytest/python.py", line 12 in runtest

Extension modules: numpy
"""


def stop(*, call="reset", rule="COM-01", test="test_x"):
    """Return a stop in *call* of a session."""
    running = CallRecord(7, 3, 12 if call else 0, call, "stream 0" if call else "")
    return Stop(
        ended="the process ended with status 9",
        running=running,
        rule=rule,
        test=test,
        scene="a session",
    )


def test_the_lines_of_the_backend_come_before_the_stack():
    """What the backend printed last and its own frames are kept, not those of pytest."""
    assert [
        "a line of the backend",
        "terminate called after throwing an instance of 'engine_error'",
        "Fatal Python error: Aborted",
        '  File "/site/engine.py", line 7 in run',
    ] == last_lines(PRINTED)


def test_a_process_that_printed_nothing_has_no_lines():
    """Without a fault there is no stack."""
    assert [] == last_lines("\n")
    assert ["bye"] == last_lines("bye\n")


def test_a_stop_breaks_the_rule_of_its_call():
    """The call, its stream and its number in the session are named."""
    outcome = stop().outcome("bye\n")

    assert ("LIFE-06", "stop in reset", "fail") == (outcome.rule, outcome.test, outcome.status)
    assert (
        "the process ended with status 9 in reset of stream 0, action 12 of the session"
        == outcome.detail
    )
    assert outcome.explanation.startswith("LIFE-06  `reset()` gives the state of a new processor.")
    assert outcome.explanation.endswith("\nbye")


def test_a_stop_outside_of_a_call_breaks_the_rule_of_the_test():
    """A process that ends between calls has the test's rule."""
    outcome = stop(call="").outcome("")

    assert ("COM-01", "test_x") == (outcome.rule, outcome.test)
    assert "the process ended with status 9" == outcome.detail


def test_the_rule_of_the_test_is_not_judged():
    """The test in which the call stopped refers to the rule of the call."""
    declared = next(iter(TESTS.values()))
    outcome = not_judged(declared, stop().outcome(""))

    assert (declared.id, False) == (outcome.rule, outcome.is_reached)
    assert "not judged: reset ended the process, see LIFE-06" == outcome.detail


def test_every_call_has_a_rule_of_the_contract():
    """The rules of calls exist."""
    assert set(RULES_OF_CALLS.values()) <= {declared.id for declared in TESTS.values()}
