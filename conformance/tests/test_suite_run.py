"""Calls that hang or end the process, as outcomes."""

from __future__ import annotations

from wlk_conformance.calls import CallRecord
from wlk_conformance.rules import RuleTest, rule_tests
from wlk_conformance.suite import BackendConformance
from wlk_conformance.suite_run import RULES_OF_CALLS, last_lines, not_judged, stopped

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


def stop(*, call="reset", printed=""):
    """Return a stop in *call* of a test."""
    running = CallRecord(7, 12 if call else 0, call, "stream 0" if call else "")
    declared = RuleTest(id="COM-01", name="test_x", sentence="It is so.")
    return stopped(declared, "the process ended with status 9", running, printed)


def test_the_lines_of_the_backend_come_before_the_stack():
    """What the backend printed last and its own frames are kept, not those of pytest."""
    assert [
        "a line of the backend",
        "terminate called after throwing an instance of 'engine_error'",
        "Fatal Python error: Aborted",
        '  File "/site/engine.py", line 7 in run',
    ] == last_lines(PRINTED)


def test_the_stack_of_another_thread_replaces_that_of_pytest():
    """A call that hangs on a thread of its own is seen in the stack of that thread."""
    hung = PRINTED.replace('"/lib/python3.11/threading.py", line 324', '"/site/lock.py", line 3')
    hung = hung.replace('"/site/engine.py"', '"/site/pluggy/engine.py"')

    assert '  File "/site/lock.py", line 3 in wait' == last_lines(hung)[-1]


def test_a_process_that_printed_nothing_has_no_lines():
    """Without a fault there is no stack."""
    assert [] == last_lines("\n")
    assert ["bye"] == last_lines("bye\n")


def test_a_stop_breaks_the_rule_of_its_call():
    """The call, its stream and its number in the session are named."""
    outcome = stop(printed="bye\n")

    assert ("LIFE-06", "stop in reset", "fail") == (outcome.rule, outcome.test, outcome.status)
    assert (
        "the process ended with status 9 in reset of stream 0, action 12 of the session"
        == outcome.detail
    )
    assert outcome.explanation.startswith("LIFE-06  `reset()` gives the state of a new processor.")
    assert outcome.explanation.endswith("\nbye")


def test_a_stop_outside_of_a_call_breaks_the_rule_of_the_test():
    """A process that ends between calls has the test's rule."""
    outcome = stop(call="")

    assert ("COM-01", "test_x") == (outcome.rule, outcome.test)
    assert "the process ended with status 9" == outcome.detail


def test_the_rule_of_the_test_is_not_judged():
    """The test in which the call stopped refers to the rule of the call."""
    declared = next(iter(TESTS.values()))
    outcome = not_judged(declared, stop())

    assert (declared.id, False) == (outcome.rule, outcome.is_reached)
    assert "not judged: reset ended the process, see LIFE-06" == outcome.detail


def test_every_call_has_a_rule_of_the_contract():
    """The rules of calls exist."""
    assert set(RULES_OF_CALLS.values()) <= {declared.id for declared in TESTS.values()}
