"""Run the suite on the scripted backend until a rule fails; print the rule and exit with 1."""

from __future__ import annotations

from functools import partial
import sys
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import examine, findings
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.sessions.campaign import SESSIONS
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wlk_conformance.rules import RuleTest
    from wlk_conformance.scripted import ScriptedBackend
    from wlk_core import BackendSpec

TIERS = frozenset({"contract", "speech"})
SESSIONS_TEST = "test_generated_sessions_keep_every_rule"
BATCHING_SPEC = attrs.evolve(SCRIPTED_SPEC, capabilities=SCRIPTED_SPEC.capabilities | {"batching"})


@attrs.frozen
class Run:
    """A run of the suite: the declaration of the backend, its options, and what is run."""

    spec: BackendSpec
    options: dict[str, str]
    is_run: Callable[[RuleTest], bool]


def runs(first_policy: str) -> Iterator[Run]:
    """
    Yield the runs of the suite that judge a mutant.

    The sessions, in which policies take turns, come first, because they detect most.  Then both
    tiers run for each policy, and at last the sessions of an engine that takes calls of several
    streams together, with the rule for those.
    """
    yield Run(SCRIPTED_SPEC, {}, _has_sessions)
    for policy in sorted(SCRIPTED_SPEC.policies, key=lambda policy: policy != first_policy):
        yield Run(SCRIPTED_SPEC, {"policy": policy}, lambda rule: not _has_sessions(rule))
    yield Run(BATCHING_SPEC, {}, lambda rule: _has_sessions(rule) or rule.id == "ISO-07")


def broken_rule(first_policy: str) -> str | None:
    """Return the first rule that is broken; packaging is left out."""
    suite = BackendConformance()
    tests = [pair for pair in rule_tests(BackendConformance) if pair[0].family != "PKG"]
    for run in runs(first_policy):
        under_test = BackendUnderTest(
            spec=run.spec,
            load=partial(_load, run.spec),
            options=run.options,
            tiers=TIERS,
            sessions=SESSIONS,
        )
        for declared, test in tests:
            if not run.is_run(declared):
                continue
            outcome = examine(declared, partial(test, suite), under_test)
            for found in (outcome, *findings(declared, under_test)):
                if found.status == "fail":
                    return f"{found.rule}: {found.detail}"
    return None


def _has_sessions(rule: RuleTest) -> bool:
    return rule.name == SESSIONS_TEST


def _load(spec: BackendSpec, model: str | None = None, **_options: object) -> ScriptedBackend:
    return load(spec, model)


broken = broken_rule(sys.argv[1])
if broken is not None:
    print(broken)
    sys.exit(1)
