"""The text of ``--explain``: a rule, its input, and the usual causes of a failure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import examine
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.suite import BackendConformance
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wlk_conformance.rules import RuleTest
    from wlk_core import Backend

__all__ = ["check_rules", "explain"]

KINDS = {
    "G": "any model",
    "O": "known words",
    "S": "known speech",
    "F": "an engine that can be made to fail",
}
CODED = "CodedSpeech().speech("  # begins the recipe of what the reference backend is fed
CALLS = 8  # lines shown of the calls of a stream


def check_rules(ids: Iterable[str]) -> None:
    """Raise OptionError, naming the rules of the same family, if an id is not in the contract."""
    known = list(dict.fromkeys(declared.id for declared, _ in rule_tests(BackendConformance)))
    for name in ids:
        if name not in known:
            family = [rule for rule in known if rule.startswith(name.partition("-")[0].upper())]
            raise OptionError(
                f"no rule {name!r} in the contract; expected one of: {', '.join(family or known)}"
            )


def explain(rule_id: str) -> str:
    """
    Return what a rule demands, what it feeds, the usual causes of a failure and how to repeat it.

    The input is what the reference backend receives when the rule runs on it, which happens now.

    Raises:
        OptionError: there is no such rule; the message names those of its family.

    """
    check_rules([rule_id])
    suite = BackendConformance()
    lines = [rule_id]
    for declared, test in rule_tests(BackendConformance):
        if declared.id == rule_id:
            lines += ["", *_explained(declared, partial(test, suite))]
    lines += ["", f"repeat it: wlk-conformance BACKEND --rule {rule_id}"]
    return "\n".join(lines)


def _explained(declared: RuleTest, test: Callable[[BackendUnderTest], None]) -> Iterator[str]:
    yield declared.sentence
    yield f"  judged on: {' or '.join(KINDS[kind] for kind in declared.kinds.split(','))}" + (
        f" that declares {declared.requires}" if declared.requires else ""
    )
    if declared.tier != "contract":
        yield f"  tier: {declared.tier}, with --{declared.tier}"
    yield f"  since: suite {declared.since}"
    if declared.tier != "long":
        yield from _input(declared, test)
    if declared.causes:
        yield "  usual causes:"
        yield from (f"    - {cause}" for cause in declared.causes)


def _input(declared: RuleTest, test: Callable[[BackendUnderTest], None]) -> Iterator[str]:
    """Run the test on the reference backend and yield what it fed to streams."""

    def make(model: str | None = None, **options: Any) -> Backend:
        SCRIPTED_SPEC.backend_options(options)
        return load(SCRIPTED_SPEC, model or SCRIPTED_SPEC.default_model)

    under_test = BackendUnderTest(
        spec=SCRIPTED_SPEC, load=make, tiers=frozenset({"contract", "speech"})
    )
    examine(declared, test, under_test)
    under_test.close()
    recipes = [recipe.replace(CODED, "connected_digits(") for recipe in under_test.recipes]
    if recipes:
        yield "  input: " + "\n         ".join(recipes)
    if under_test.call_logs:
        log = under_test.call_logs[-1]
        count = len(under_test.call_logs)
        yield f"  calls of the last of {count} streams, on the reference backend:"
        yield from (f"    {line.strip()}" for line in list(log.lines)[-CALLS:])
