"""The page that compares backends."""

from __future__ import annotations

import pytest

from wlk_conformance.compliance import compliance_page


def report(backend, *, suite="1.0", options=None, **outcomes):
    """Return a report as JSON would give it."""
    rules = [
        {"id": rule, "outcome": outcome, "sentence": f"{rule} holds. And more.", "detail": "why"}
        for rule, outcome in outcomes.items()
    ]
    return {
        "backend": backend,
        "options": options or {},
        "suite": suite,
        "verdict": "compliant",
        "rules": rules,
    }


def test_a_rule_is_a_row_and_a_backend_a_column():
    """Outcomes stand side by side, and a failure stands out."""
    page = compliance_page([report("one", A="pass", B="fail"), report("two", A="n/a")])

    assert "| rule | `one` | `two` | |" in page
    assert "| A | pass | n/a | A holds |" in page
    assert "| B | **fail** | - | B holds |" in page


@pytest.mark.parametrize("name", ["policy", "engine"])
def test_a_policy_or_engine_that_was_chosen_has_a_column_of_its_own(name):
    """One backend may be proven with each of them; other options are nobody's business."""
    chosen = report("one", options={name: "swift", "base_url": "http://127.0.0.1:1"}, A="pass")
    page = compliance_page([chosen, report("one", A="pass")])

    assert "| rule | `one` swift | `one` | |" in page


def test_what_was_not_judged_has_its_reason():
    """Nobody has to guess why a rule says n/a or deviation."""
    page = compliance_page([report("one", A="n/a", B="n/a", C="deviation")])

    assert "- `one`: A, B n/a: why" in page
    assert "- `one`: C deviation: why" in page


@pytest.mark.parametrize("reports", [[], [report("one"), report("two", suite="1.1")]])
def test_reports_of_different_suites_are_not_compared(reports):
    """A column means the same in every row."""
    with pytest.raises(ValueError, match="expected reports of one suite"):
        compliance_page(reports)
