"""Run the suite on the scripted backend until a rule fails; print the rule and exit with 1."""

from __future__ import annotations

from functools import partial
import sys

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import examine, findings
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.suite import BackendConformance

SESSIONS = 24  # two of each theme, on policies that take turns
SESSIONS_TEST = "test_generated_sessions_keep_every_rule"


def broken_rule(policy: str) -> str | None:
    """Return the first rule that is broken; packaging is left out."""
    suite = BackendConformance()
    tests = [pair for pair in rule_tests(BackendConformance) if pair[0].family != "PKG"]
    for options, is_sessions in (({}, True), ({"policy": policy}, False)):
        under_test = BackendUnderTest(
            spec=SCRIPTED_SPEC,
            load=lambda model=None, **_options: load(SCRIPTED_SPEC, model),
            options=options,
            sessions=SESSIONS,
        )
        for declared, test in tests:
            if (declared.name == SESSIONS_TEST) != is_sessions:
                continue
            outcome = examine(declared, partial(test, suite), under_test)
            for found in (outcome, *findings(declared, under_test)):
                if found.status == "fail":
                    return f"{found.rule}: {found.detail}"
    return None


broken = broken_rule(sys.argv[1])
if broken is not None:
    print(broken)
    sys.exit(1)
