from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

from faulty_backends.base import all_cases, broken_rules
import pytest

from wlk_conformance.rules import rule_tests
from wlk_conformance.suite import BackendConformance

FOLDER = Path(__file__).parent / "faulty_backends"
NEVER_JUDGED = {"QUAL-03"}


@pytest.mark.slow
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.rule}-{case.name}")
def test_a_faulty_backend_is_detected_by_its_rule_alone(case, monkeypatch):
    """The suite fails a faulty backend by the rule that it breaks and by no other."""
    path = os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)  # two of them are plugins of their own
    broken = broken_rules(case.under_test())

    assert {case.rule: case.rule} == {rule: result.id for rule, result in broken.items()}, {
        rule: result.detail for rule, result in broken.items()
    }


def test_every_rule_has_a_faulty_backend():
    """Each rule is broken by a faulty backend, which proves that it can fail."""
    rules = {declared.id for declared, _ in rule_tests(BackendConformance)}

    assert rules - NEVER_JUDGED == {case.rule for case in all_cases()}


def test_the_table_is_current():
    """README.md in faulty_backends is what its table.py prints."""
    command = [sys.executable, str(FOLDER / "table.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert printed == (FOLDER / "README.md").read_text(encoding="utf-8")
