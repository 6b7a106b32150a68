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


def test_a_backend_is_a_line():
    """A line counts the rules that were tested, passed, deviate and were not tested, by reason."""
    page = compliance_page(
        [
            report("first", A="pass", B="fail", C="pass"),
            report("second", absent=["A"], A="n/a", B="deviation", C="n/a"),
        ]
    )

    assert "| `first` | **not compliant** | 3 of 3 | 2 | 0 | 0 | 0 |\n" in page
    assert "| `second` | compliant | 1 of 3 | 0 | 1 | 1 | 1 |\n" in page


def test_two_proofs_of_a_backend_are_distinguished_by_their_names():
    """A backend on two servers is listed twice, and a reason names its proof."""
    first, second = (
        {**report("remote", A=outcome), "proof": proof}
        for proof, outcome in (("remote", "pass"), ("remote-digits", "n/a"))
    )
    page = compliance_page([first, second])

    assert "| `remote` (remote) | compliant |" in page
    assert "| A | n/a | `remote` (remote-digits) | why |\n" in page


@pytest.mark.parametrize("name", ["policy", "engine"])
def test_a_policy_or_engine_that_was_chosen_has_a_line_of_its_own(name):
    """A backend may be proven with each of them; other options are not shown."""
    chosen = report("first", options={name: "swift", "base_url": "http://127.0.0.1:1"}, A="pass")
    page = compliance_page([chosen, report("first", A="pass")])

    assert "| `first` swift | compliant |" in page
    assert "| `first` | compliant |" in page
    assert "127.0.0.1" not in page


def test_a_rule_that_did_not_pass_has_its_reason():
    """Rules that were not tested, deviate or fail are listed in the contract's order."""
    page = compliance_page(
        [
            report("first", A="n/a", B="fail", C="pass"),
            report("second", A="n/a", B="pass", C="deviation"),
        ]
    )

    assert page.endswith(
        "| A | n/a | all | why |\n"
        "| B | **fail** | `first` | why |\n"
        "| C | deviation | `second` | why |\n"
    )


def test_backends_with_the_same_reason_share_a_row():
    """A reason that begins with the name of its backend is the same for every backend."""
    reports = [
        report("first", detail="first does not declare word-times", A="n/a"),
        report("second", detail="second does not declare word-times", A="n/a"),
        report("third", A="pass"),
    ]

    assert "| A | n/a | `first`, `second` | does not declare word-times |\n" in compliance_page(
        reports
    )


@pytest.mark.parametrize("reports", [[], [report("first"), report("second", suite="1.1")]])
def test_reports_of_different_suites_are_not_compared(reports):
    """The lines of one page are comparable."""
    with pytest.raises(ValueError, match="expected reports of one suite"):
        compliance_page(reports)
