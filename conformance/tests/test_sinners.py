from __future__ import annotations

import pytest

from wlk_conformance.rules import rule_tests
from wlk_conformance.sinners.sinner import all_sinners, broken_rules
from wlk_conformance.suite import BackendConformance

NEVER_JUDGED = {"QUAL-03"}


@pytest.mark.slow
@pytest.mark.parametrize("sinner", all_sinners(), ids=lambda sinner: f"{sinner.rule}-{sinner.name}")
def test_a_sinner_is_caught_by_its_rule_alone(sinner):
    """The suite fails a sinner by the rule that it breaks and by no other."""
    broken = broken_rules(sinner.subject())

    assert {sinner.rule: sinner.rule} == {rule: result.id for rule, result in broken.items()}, {
        rule: result.detail for rule, result in broken.items()
    }


def test_every_rule_has_a_sinner():
    """No rule is there that nothing was ever seen to break."""
    rules = {declared.id for declared, _ in rule_tests(BackendConformance)}

    assert rules - NEVER_JUDGED == {sinner.rule for sinner in all_sinners()}
