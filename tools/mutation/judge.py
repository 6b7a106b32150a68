"""Run the suite on the scripted backend until a rule fails; print the rule and exit with 1."""

from __future__ import annotations

from functools import partial
import sys
from typing import TYPE_CHECKING

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import examine, findings
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.sessions.campaign import SESSIONS
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS_TEST = "test_generated_sessions_keep_every_rule"


def runs(first_policy: str) -> Iterator[tuple[dict[str, str], bool]]:
    """
    Yield the options of each run, and whether it plays sessions or runs the contract tier.

    The sessions, in which policies take turns, come first, because they detect most.
    """
    yield {}, True
    for policy in sorted(SCRIPTED_SPEC.policies, key=lambda policy: policy != first_policy):
        yield {"policy": policy}, False


def broken_rule(first_policy: str) -> str | None:
    """Return the first rule that is broken; packaging is left out."""
    suite = BackendConformance()
    tests = [pair for pair in rule_tests(BackendConformance) if pair[0].family != "PKG"]
    for options, is_sessions in runs(first_policy):
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
