"""The text of ``--explain``: a rule and the usual causes of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.rules import rule_tests
from wlk_conformance.suite import BackendConformance
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wlk_conformance.rules import RuleTest

__all__ = ["check_rules", "explain"]

KINDS = {
    "G": "any model",
    "O": "known words",
    "S": "known speech",
    "F": "an engine that can be made to fail",
}


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
    Return what a rule demands, the usual causes of a failure and how to repeat it.

    Raises:
        OptionError: there is no such rule; the message names those of its family.

    """
    check_rules([rule_id])
    lines = [rule_id]
    for declared, _ in rule_tests(BackendConformance):
        if declared.id == rule_id:
            lines += ["", *_explained(declared)]
    lines += ["", f"repeat it: wlk-conformance BACKEND --rule {rule_id}"]
    return "\n".join(lines)


def _explained(declared: RuleTest) -> Iterator[str]:
    yield declared.sentence
    yield f"  judged on: {' or '.join(KINDS[kind] for kind in declared.kinds.split(','))}" + (
        f" that declares {declared.requires}" if declared.requires else ""
    )
    if declared.tier != "contract":
        yield f"  tier: {declared.tier}, with --{declared.tier}"
    yield f"  since: suite {declared.since}"
    if declared.causes:
        yield "  usual causes:"
        yield from (f"    - {cause}" for cause in declared.causes)
