"""Rules of annotators: how a test is declared as one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast
from unittest import SkipTest

from wlk_conformance.rules import RuleTest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["annotator_rule", "annotator_rules", "broken_rules"]

_Test = TypeVar("_Test", bound="Callable[..., None]")


def annotator_rule(rule_id: str, *, kinds: str = "G") -> Callable[[_Test], _Test]:
    """Declare a test of the rule *rule_id*; its docstring is the contract's sentence."""

    def declare(test: _Test) -> _Test:
        sentence = " ".join(inspect.cleandoc(test.__doc__ or "").split())
        declared = RuleTest(id=rule_id, name=test.__name__, sentence=sentence, kinds=kinds)
        cast("Any", test).wlk_annotator_rule = declared
        return test

    return declare


def annotator_rules(suite: type) -> Iterator[RuleTest]:
    """Yield the tests of *suite*, a class of this package, in the order of their ids."""
    declared = (getattr(getattr(suite, name), "wlk_annotator_rule", None) for name in dir(suite))
    yield from sorted((test for test in declared if test is not None), key=lambda test: test.id)


def broken_rules(suite: type) -> dict[str, str]:
    """Run every test of *suite* without pytest; return the broken rules, each with the reason."""
    broken: dict[str, str] = {}
    for test in annotator_rules(suite):
        try:
            getattr(suite(), test.name)()
        except SkipTest:
            continue
        except Exception as error:  # noqa: BLE001 -- a plugin's code
            broken.setdefault(test.id, f"{type(error).__name__}: {error}")
    return broken
