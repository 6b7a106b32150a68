"""The contract tier on the scripted backend, in this process, as a test that mutants must fail."""

from __future__ import annotations

from functools import partial

import pytest

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import examine
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.suite import BackendConformance


@pytest.mark.parametrize("policy", SCRIPTED_SPEC.policies)
def test_every_rule_holds(policy):
    """No rule fails; those about packaging are left out, because they run other interpreters."""
    under_test = BackendUnderTest(
        spec=SCRIPTED_SPEC,
        load=lambda model=None, **_options: load(SCRIPTED_SPEC, model),
        options={"policy": policy},
    )
    suite = BackendConformance()
    for declared, test in rule_tests(BackendConformance):
        if declared.family != "PKG":
            outcome = examine(declared, partial(test, suite), under_test)

            assert outcome.status != "fail", outcome.explanation
    under_test.close()
