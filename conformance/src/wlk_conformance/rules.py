"""Rules of the contract: how a test is declared as one, and what its outcome is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUITE_VERSION = "2.0"  #: moves when a rule is added; `since` and a pinned `suite` compare with it
MONITORED_SINCE = "2.0"  #: what the monitor of every stream finds is advisory to older suites

Tier = Literal["contract", "speech", "long"]
Status = Literal["pass", "fail", "n/a"]
#: Why a rule is n/a: the backend declares not to have what it is about, it was not selected, or
#: the suite has no means to test it on this model.
Absence = Literal["not declared", "not selected", "not testable"]

BY_RULE = "not selected by --rule"  # the detail of a rule beside those that were
NOT_REACHED = "not reached: "  # begins the detail of a test that the run did not get to

_Test = TypeVar("_Test", bound="Callable[..., None]")


class NotApplicable(Exception):  # noqa: N818 -- an outcome, not a mistake
    """The rule cannot be tested here; the message explains why, `absence` is the kind of reason."""

    def __init__(self, reason: str, absence: Absence = "not testable") -> None:
        super().__init__(reason)
        self.absence = absence


@attrs.frozen(kw_only=True)
class RuleTest:
    """One test of a rule."""

    id: str  #: the rule, such as "SIL-04"; several tests may share it
    name: str  #: the test method
    sentence: str  #: its docstring on one line; that of a rule's first test is the rule
    since: str = "1.0"  #: the suite version that introduced it
    kinds: str = "G"  #: G any model, O known words, F faults on demand, S known speech
    tier: Tier = "contract"
    requires: str | None = None  #: the capability without which it does not apply
    causes: tuple[str, ...] = ()  #: the usual mistakes, printed with a failure
    is_first: bool = False  #: it makes other rules fail, so it is reported before them


@attrs.frozen(kw_only=True)
class TestOutcome:
    """The outcome of one test of a rule."""

    __test__ = False  # not collected by pytest, whatever imports it

    rule: str
    test: str
    status: Status
    detail: str = ""  #: one line, which begins with NOT_REACHED if a hang or a crash came before
    explanation: str = ""  #: the full text of a failure
    absence: Absence = "not testable"  #: the kind of an n/a
    is_first: bool = False

    @classmethod
    def of(cls, declared: RuleTest, status: Status, detail: str, **more: Any) -> TestOutcome:
        """Return the outcome of the test *declared*."""
        return cls(rule=declared.id, test=declared.name, status=status, detail=detail, **more)


RULES: dict[str, RuleTest] = {}  #: the first test of each rule, whose sentence is the rule's


def rule(rule_id: str, *causes: str, **declaration: Any) -> Callable[[_Test], _Test]:
    """Declare a test of *rule_id* by its docstring; see RuleTest for the *declaration*."""

    def declare(test: _Test) -> _Test:
        sentence = " ".join(inspect.cleandoc(test.__doc__ or "").split())
        declared = RuleTest(
            id=rule_id, name=test.__name__, sentence=sentence, causes=causes, **declaration
        )
        RULES.setdefault(rule_id, declared)
        cast("Any", test).wlk_rule = declared
        return test

    return declare


def rule_tests(suite: type) -> Iterator[tuple[RuleTest, Callable[..., None]]]:
    """Yield the tests of *suite*, a class, in the order of its files and lines."""
    for owner in reversed(suite.__mro__):
        for function in vars(owner).values():
            declared: RuleTest | None = getattr(function, "wlk_rule", None)
            if declared is not None:
                yield declared, function
