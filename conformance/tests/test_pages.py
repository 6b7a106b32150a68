"""The page that is generated from reports."""

from __future__ import annotations

from pathlib import Path
import runpy

import pytest

ROOT = Path(__file__).resolve().parents[2]
compliance_page = runpy.run_path(str(ROOT / "tools" / "compliance_page.py"))["compliance_page"]


def report(backend, *, suite="1.0", options=None, detail="why", absent=(), **outcomes):
    """Return a report as JSON would give it."""
    rules = [
        {"id": rule, "outcome": outcome, "sentence": f"{rule} holds. And more.", "detail": detail}
        for rule, outcome in outcomes.items()
    ]
    return {
        "backend": backend,
        "options": options or {},
        "suite": suite,
        "verdict": "not compliant" if "fail" in outcomes.values() else "compliant",
        "rules": rules,
        "not_tested": {"not declared": [rule for rule in absent if outcomes[rule] == "n/a"]},
    }


@pytest.mark.parametrize("name", ["policy", "engine"])
def test_a_policy_or_engine_that_was_chosen_has_a_line_of_its_own(name):
    """A backend may be proven with each of them; other options are not shown."""
    chosen = report("first", options={name: "swift", "base_url": "http://127.0.0.1:1"}, A="pass")
    page = compliance_page([chosen, report("first", A="pass")])

    assert "| `first` swift | compliant |" in page
    assert "| `first` | compliant |" in page
    assert "127.0.0.1" not in page


@pytest.mark.parametrize("reports", [[], [report("first"), report("second", suite="1.1")]])
def test_reports_of_different_suites_are_not_compared(reports):
    """The lines of one page are comparable."""
    with pytest.raises(ValueError, match="expected reports of one suite"):
        compliance_page(reports)
