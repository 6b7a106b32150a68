"""The catalogue of faults: every fault is detected, and every rule has three."""

from __future__ import annotations

from collections import Counter
import gc
import logging
import os
from pathlib import Path
import random
import signal
import socket
import sys

from faulty_backends.base import FaultyCase, broken_rules, faulty_cases
from faulty_backends.sharing import BATCHING, BatchingBackend
import pytest

from wlk_conformance import calls
from wlk_conformance.rules import rule_tests
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.sessions import monitor, play
from wlk_conformance.suite import BackendConformance, life_cycle, scenes, text

TESTS = Path(__file__).parent
IS_FULL = os.environ.get("WLK_FULL") == "1"  # nox -s full
SEEDS = (0, 1, 2) if IS_FULL else (0,)


@pytest.fixture(autouse=True)
def _prepared(monkeypatch, request):
    """Let processes import faulty plugins, and find a waiting call in two seconds, not five."""
    assert monitor.NO_WAIT == 5.0  # seconds, as LIFE-10 says; a busy machine may need them
    is_waiting = any(rule in request.node.name for rule in ("IN-04", "HYP-01", "LIFE-10"))
    for module in (monitor, play, life_cycle, scenes) if is_waiting else ():
        monkeypatch.setattr(module, "NO_WAIT", 2.0)
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    if "Slow" not in request.node.name:  # really waited, several times for each backend
        monkeypatch.setattr(text, "SLOW", 0.01)
    if any(name in request.node.name for name in ("TakesLocks", "KeepsLock")):
        for module in (calls, scenes):
            monkeypatch.setattr(module, "STUCK", 0.5)
    if "PKG-06" in request.node.name:
        request.getfixturevalue("_restored_process")


@pytest.fixture(name="_restored_process")
def _restored(monkeypatch):
    """Put back after the test what the faults of PKG-06 change."""
    monkeypatch.chdir(Path.cwd())
    environment, level = dict(os.environ), logging.getLogger().level
    timeout, interval = socket.getdefaulttimeout(), sys.getswitchinterval()
    handler, state = signal.getsignal(signal.SIGUSR1), random.getstate()
    yield
    os.environ.clear()
    os.environ.update(environment)
    logging.getLogger().setLevel(level)
    socket.setdefaulttimeout(timeout)
    sys.setswitchinterval(interval)
    signal.signal(signal.SIGUSR1, handler)
    random.setstate(state)
    gc.enable()


def as_parameters(cases):
    """Return faults as parameters."""
    return [pytest.param(case, id=f"{case.rule}-{case.name}") for case in cases]


def family_of(case):
    """Return the family of the rule that *case* breaks, such as LIFE of LIFE-01."""
    return case.rule.partition("-")[0]


ALONE = faulty_cases("its rule alone")
#: Faults that the tests of other rules show, in streams of minutes.
SHOWN_ELSEWHERE = ("LosesWordAfterFourMinutes", "KeepsHalfPrecisionTimes")
#: The whole suite runs on the first fault of each family of rules, such as LIFE, and on those; on
#: the others, the tests of their rules do.
FIRST = [
    case
    for number, case in enumerate(ALONE)
    if IS_FULL
    or case.name in SHOWN_ELSEWHERE
    or family_of(case) not in {family_of(earlier) for earlier in ALONE[:number]}
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", as_parameters(FIRST))
def test_a_faulty_backend_is_detected_by_its_rule_alone(fault, monkeypatch):
    """The suite fails a faulty backend by the rule that it breaks and by no other."""
    if fault.rule != "COM-04":  # seconds that are really waited
        monkeypatch.setattr(text, "SLOW", 0.01)
    broken = broken_rules(fault.under_test())

    assert list(broken) == [fault.rule], {rule: result.detail for rule, result in broken.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", as_parameters([*faulty_cases("tests"), *(case for case in ALONE if case not in FIRST)])
)
def test_a_fault_is_detected_by_the_tests_of_its_rule(fault):
    """A test of the rule fails, or the monitor of its streams reports the rule."""
    assert fault.is_detected_by_tests()


@pytest.mark.slow
@pytest.mark.parametrize("fault", as_parameters(faulty_cases("sessions")))
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_is_detected_in_sessions(fault, seed):
    """Sessions drawn from any seed break the rule."""
    assert fault.is_detected_in_sessions(seed)


def test_every_rule_has_three_faulty_backends():
    """Each judged rule is broken in at least three ways, once without breaking another."""
    rules = {declared.id for declared, _ in rule_tests(BackendConformance)} - {"QUAL-03"}
    count = Counter(case.rule for case in faulty_cases())

    assert {case.rule for case in faulty_cases("its rule alone")} == rules
    assert {rule: count[rule] for rule in sorted(rules) if count[rule] < 3} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [case for case in faulty_cases("its rule alone", "tests") if case.rule == "PKG-02"],
    ids=lambda case: case.name,
)
def test_a_heavy_plugin_is_refused_for_what_it_imports(case):
    """The plugin can be imported and the failure names numpy, so it fails for no other reason."""
    with pytest.raises(AssertionError, match=f"importing {case.entry_point} imports numpy"):
        BackendConformance().test_importing_the_plugin_is_light(case.under_test())


@pytest.mark.slow
def test_a_sound_backend_with_batching_breaks_no_rule():
    """The faulty backends of ISO-07 differ from it only by their faults."""

    def make(model=None):
        load(SCRIPTED_SPEC, model).close()  # refuses a model that does not exist
        return BatchingBackend()

    case = FaultyCase(
        name="sound", rule="", detector="tests", sentence="", make=make, spec=BATCHING
    )

    assert broken_rules(case.under_test()) == {}
