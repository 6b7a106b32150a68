"""Rules of the contract: how a test is declared as one, and what its outcome is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "BY_RULE",
    "SUITE_VERSION",
    "Absence",
    "NotApplicable",
    "NotDeclared",
    "NotSelected",
    "RuleTest",
    "Status",
    "TestOutcome",
    "Tier",
    "rule",
    "rule_ids",
    "rule_test",
    "rule_tests",
]

SUITE_VERSION = "2.0"  #: moves when a rule is added; `since` and a pinned `suite` compare with it
MONITORED_SINCE = "2.0"  #: what the monitor of every stream finds is advisory to older suites

Tier = Literal["contract", "speech", "long"]
Status = Literal["pass", "fail", "n/a"]
#: Why a rule is n/a: the backend declares not to have what it is about, it was not selected, or
#: the suite has no means to test it on this model.
Absence = Literal["not declared", "not selected", "not testable"]

BY_RULE = "not selected by --rule"  # the detail of a rule beside those that were

_Test = TypeVar("_Test", bound="Callable[..., None]")


class NotApplicable(Exception):  # noqa: N818 -- an outcome, not a mistake
    """The rule cannot be tested here; the message explains why."""

    absence: Absence = "not testable"


class NotSelected(NotApplicable):
    """The rule belongs to a tier that was not selected, or other rules were."""

    absence: Absence = "not selected"


class NotDeclared(NotApplicable):
    """The backend declares not to have what the rule is about; the message names it."""

    absence: Absence = "not declared"


@attrs.frozen(kw_only=True)
class RuleTest:
    """
    One test of a rule.

    Attributes:
        id: the rule, such as "SIL-04"; several tests may share it.
        name: the test method.
        sentence: its docstring on one line; that of a rule's first test is the rule.
        since: the suite version that introduced it.
        kinds: G any model, O needs known words, F needs faults on demand, S known speech.
        tier: when it runs.
        requires: the capability without which it does not apply.
        causes: the usual mistakes, printed with a failure.
        is_first: its failure makes other rules fail, so it is reported before them.

    """

    id: str
    name: str
    sentence: str
    since: str = "1.0"
    kinds: str = "G"
    tier: Tier = "contract"
    requires: str | None = None
    causes: tuple[str, ...] = ()
    is_first: bool = False


@attrs.frozen(kw_only=True)
class TestOutcome:
    """
    The outcome of one test of a rule.

    `detail` is one line, `explanation` the full text of a failure, `absence` the kind of an n/a.  A
    test that a hang or a crash kept from running fails and is not reached.
    """

    __test__ = False  # not collected by pytest, whatever imports it

    rule: str
    test: str
    status: Status
    detail: str = ""
    explanation: str = ""
    is_reached: bool = True
    absence: Absence = "not testable"
    is_first: bool = False

    @classmethod
    def failed(cls, declared: RuleTest, detail: str, *, is_reached: bool = True) -> TestOutcome:
        """Return a failure without an explanation."""
        return cls(
            rule=declared.id,
            test=declared.name,
            status="fail",
            detail=detail,
            is_reached=is_reached,
        )


_DECLARED: dict[str, RuleTest] = {}  # the first test of each rule, filled by `rule`


def rule(rule_id: str, **declaration: Any) -> Callable[[_Test], _Test]:
    """
    Declare a test of the rule *rule_id*; its docstring is the contract's sentence.

    The *declaration* is that of RuleTest, from `since` on.
    """

    def declare(test: _Test) -> _Test:
        sentence = " ".join(inspect.cleandoc(test.__doc__ or "").split())
        declared = RuleTest(id=rule_id, name=test.__name__, sentence=sentence, **declaration)
        _DECLARED.setdefault(rule_id, declared)
        cast("Any", test).wlk_rule = declared
        return test

    return declare


def rule_ids() -> frozenset[str]:
    """Return the ids of all rules whose modules have been imported."""
    return frozenset(_DECLARED)


def rule_test(rule_id: str) -> RuleTest:
    """Return the first test of the rule, whose sentence is the rule's; KeyError if none is."""
    return _DECLARED[rule_id]


def rule_tests(suite: type) -> Iterator[tuple[RuleTest, Callable[..., None]]]:
    """Yield the tests of *suite*, a class, in the order of its files and lines."""
    for owner in reversed(suite.__mro__):
        for function in vars(owner).values():
            declared: RuleTest | None = getattr(function, "wlk_rule", None)
            if declared is not None:
                yield declared, function
