from __future__ import annotations

import json

import pytest

CLASS = """
from wlk_conformance import BackendConformance


class TestIt(BackendConformance):
    backend = {backend!r}
"""


@pytest.mark.slow
def test_a_class_is_all_an_author_writes(authors_pytest, tmp_path):
    """A subclass with the backend's name runs every rule, with warnings as errors."""
    source = CLASS.format(backend="scripted")
    done = authors_pytest(source, "--wlk-report=report.json", "--wlk-sessions=12")

    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stdout
    assert report["verdict"] == "compliant"
    assert "wlk conformance: scripted digits" in done.stdout
    assert "test_conformance.py::TestIt::test_starts_never_go_back" in done.stdout


@pytest.mark.slow
def test_deviations_are_strict(authors_pytest):
    """A declared deviation is an expected failure; a deviation from a rule that holds fails."""
    deviating = authors_pytest(CLASS.format(backend="fake-deviating"), "--wlk-sessions=12")
    stale = authors_pytest(CLASS.format(backend="fake-stale"), "--wlk-rule=SIL-02")

    assert deviating.returncode == 0, deviating.stdout
    assert "XFAIL" in deviating.stdout
    assert "see the README" in deviating.stdout
    assert stale.returncode == 1
    assert "stale: SIL-02 holds" in stale.stdout


def test_an_overridden_test_is_an_error(authors_pytest):
    """A subclass cannot replace a rule."""
    override = "\n    def test_starts_never_go_back(self):\n        pass\n"
    done = authors_pytest(CLASS.format(backend="scripted") + override)

    assert done.returncode == 2
    assert "TestIt overrides test_starts_never_go_back" in done.stdout


def test_an_unknown_backend_is_an_error(authors_pytest):
    """A class that names no installed backend errors with the registry's message."""
    done = authors_pytest(CLASS.format(backend="nowhere"), "-k", "starts_never")

    assert done.returncode == 1
    assert "no backend called 'nowhere'" in done.stdout


@pytest.mark.slow
def test_rules_newer_than_the_pin_are_advisory(authors_pytest):
    """For an author who pins an older suite, newer rules are reported but do not fail the run."""
    source = CLASS.format(backend="fake-printing") + '    suite = "0.9"\n'
    done = authors_pytest(source, "-k", "standard_output or second_silence")

    assert done.returncode == 0, done.stdout
    assert "advisory" in done.stdout
    assert "COMPLIANT (2 of 2 rules tested) with 1 advisory finding" in done.stdout


def test_a_failing_rule_explains_itself(authors_pytest):
    """A failure prints the sentence, the input, the calls and the usual causes."""
    source = CLASS.format(backend="fake-silent")
    done = authors_pytest(source, "-k", "test_a_silence_moves_the_clock_exactly")

    assert done.returncode == 1
    assert "SIL-03  `end_silence(d, offset)` moves the clock by exactly d." in done.stdout
    assert "start_silence: processed_up_to is" in done.stdout
    assert "seed=3" in done.stdout
    assert ".end_silence(1.234567)" in done.stdout
    assert "usual causes:" in done.stdout
    assert "reproduce with: wlk-conformance fake-silent --rule SIL-03" in done.stdout
