"""Declare the rules of the contract, their tests, and the outcomes of those tests."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUITE_VERSION = "2.0"  #: raised when a rule is added; compared with `since` and a pinned `suite`
MONITORED_SINCE = "2.0"  #: findings of the stream monitor are advisory to older pinned suites

Tier = Literal["contract", "speech", "long"]
Status = Literal["pass", "fail", "n/a"]
#: Why a rule is n/a: the backend does not declare the feature, the rule was not selected, or the
#: suite cannot test it on this model.
Absence = Literal["not declared", "not selected", "not testable"]

BY_RULE = "not selected by --rule"  # detail of the rules that --rule leaves out
NOT_REACHED = "not reached: "  # prefix of the detail of a test that the run did not reach

_Test = TypeVar("_Test", bound="Callable[..., None]")


class NotApplicable(Exception):  # noqa: N818 -- an outcome, not a mistake
    """The rule cannot be tested here; the message explains why, `absence` classifies it."""

    def __init__(self, reason: str, absence: Absence = "not testable") -> None:
        super().__init__(reason)
        self.absence = absence


@attrs.frozen(kw_only=True)
class RuleTest:
    """One test of a rule."""

    id: str  #: the rule, such as "SIL-04"; several tests may share it
    name: str  #: the test method
    sentence: str  #: its docstring on one line; that of the first test is the rule
    since: str = "1.0"  #: the suite version that introduced it
    kinds: str = "G"  #: G any model, O known words, F faults on demand, S known speech
    tier: Tier = "contract"
    requires: str | None = None  #: capability without which the test does not apply
    causes: tuple[str, ...] = ()  #: the usual mistakes, printed with a failure
    is_first: bool = False  #: its failure makes other rules fail, so it is reported first


@attrs.frozen(kw_only=True)
class TestOutcome:
    """The outcome of one test of a rule."""

    __test__ = False  # keeps pytest from collecting it wherever it is imported

    rule: str
    test: str
    status: Status
    detail: str = ""  #: one line; begins with NOT_REACHED after a hang or a crash
    explanation: str = ""  #: the full text of a failure
    absence: Absence = "not testable"  #: why it is n/a
    is_first: bool = False

    @classmethod
    def of(cls, declared: RuleTest, status: Status, detail: str, **more: Any) -> TestOutcome:
        """Return the outcome of the test *declared*."""
        return cls(rule=declared.id, test=declared.name, status=status, detail=detail, **more)


RULES: dict[str, RuleTest] = {}  #: the first test of each rule, whose sentence is the rule's
#: The tests whose sentences a monitor finds broken, for rules where that is not the first test.
MONITORED: dict[str, RuleTest] = {}


def rule(
    rule_id: str, *causes: str, is_monitored: bool = False, **declaration: Any
) -> Callable[[_Test], _Test]:
    """
    Declare a test of *rule_id*, whose docstring is its sentence; see RuleTest for the rest.

    `is_monitored` means that a monitor finds this sentence broken, and not that of the first test.
    """

    def declare(test: _Test) -> _Test:
        sentence = " ".join(inspect.cleandoc(test.__doc__ or "").split())
        declared = RuleTest(
            id=rule_id, name=test.__name__, sentence=sentence, causes=causes, **declaration
        )
        RULES.setdefault(rule_id, declared)
        if is_monitored:
            MONITORED[rule_id] = declared
        cast("Any", test).wlk_rule = declared
        return test

    return declare


def rule_tests(suite: type) -> Iterator[tuple[RuleTest, Callable[..., None]]]:
    """Yield the tests of the class *suite* in the order of the contract."""
    for owner in reversed(suite.__mro__):
        for function in vars(owner).values():
            declared: RuleTest | None = getattr(function, "wlk_rule", None)
            if declared is not None:
                yield declared, function
