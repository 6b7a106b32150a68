"""Rules of annotators: how a test is declared as one, how an annotator is opened and fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast
from unittest import SkipTest

import numpy as np

from wlk_conformance.rules import RuleTest, declared_test
from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core.processor import SAMPLE_RATE
from wlk_core.registry import Registry
from wlk_core.session import Commit, Failure, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from wlk_core.annotators import AnnotatorKind
    from wlk_core.processor import WorkCounters
    from wlk_core.session.events import Event

__all__ = [
    "CODED_SPEECH",
    "AnnotatorRules",
    "annotator_rule",
    "annotator_rules",
    "broken_rules",
    "check_failure",
    "check_no_work",
]

_Test = TypeVar("_Test", bound="Callable[..., None]")
CODED_SPEECH = encode([CodedToken(1 + i % 10, 6 * i, 4) for i in range(20)], cells=126)


def annotator_rule(rule_id: str, *, kinds: str = "G") -> Callable[[_Test], _Test]:
    """Declare a test of the rule *rule_id*; its docstring is the contract's sentence."""

    def declare(test: _Test) -> _Test:
        cast("Any", test).wlk_annotator_rule = declared_test(rule_id, test, kinds=kinds)
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


class Annotator(Protocol):
    """What annotators of all kinds have in common."""

    def reset(self) -> None:
        """Return to the state of a new one."""

    def close(self) -> None:
        """Release everything."""

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""


A = TypeVar("A", bound=Annotator)


class AnnotatorRules(Generic[A]):
    """
    Rules of annotators, as tests; a subclass in a test module names the annotator.

    Attributes:
        annotator: the name of an installed annotator.
        model: the model to load, None for the spec's default.
        options: options of the annotator, by name.

    """

    kind: ClassVar[AnnotatorKind]
    annotator: ClassVar[str] = ""
    model: ClassVar[str | None] = None
    options: ClassVar[dict[str, Any]] = {}

    def open(self) -> A:
        """Return a new annotator; override it for one that is not installed."""
        opened: A = Registry().load_annotator(self.kind, self.annotator, self.model, **self.options)
        return opened

    def open_failing(self, call: int) -> A:
        """
        Return a new annotator whose model fails at its call number *call*, counted from 1.

        Override it where the model can be made to fail.
        """
        raise SkipTest(f"no fault can be scripted: override open_failing(call={call})")

    def close_twice(self) -> None:
        """Close a new annotator twice; what the second close raises breaks the rule."""
        annotator = self.open()
        annotator.close()
        annotator.close()

    def run_session(self, name: str) -> list[Event]:
        """Return the events of a session with the annotator; check that its words are the same."""
        alone = _session_events({})
        events = _session_events({name: self.open()})
        failures = [event.error for event in events if isinstance(event, Failure)]
        assert not failures, f"the session reported: {failures[0]}"
        assert _commits(alone) == _commits(events), "the annotator changed the committed words"
        return events


def check_no_work(annotator: Annotator, call: Callable[[], object], what: str) -> None:
    """Check that *call* runs no model, by the counters."""
    before = annotator.stats
    call()
    assert before == annotator.stats, f"{what} ran the model: {before} became {annotator.stats}"


def check_failure(call: Callable[[], object]) -> object:
    """Make a call until it does not raise, four times at most; return its result."""
    raised: list[Exception] = []
    for _ in range(4):
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 -- a plugin's code
            raised.append(error)
        else:
            assert raised, "a failure of the model was not raised"
            return result
    raise AssertionError(f"a failure that passes was raised again and again: {raised[-1]!r}")


def _session_events(annotators: dict[str, Any]) -> list[Event]:
    with ScriptedBackend() as backend:
        session = Session(backend.create_processor(), **annotators)
        audio: NDArray[np.float32] = np.concatenate(
            (CODED_SPEECH, np.zeros(3 * SAMPLE_RATE, np.float32), CODED_SPEECH)
        )
        events = [event for chunk in partition(audio, 0.5) for event in session.feed(chunk)]
        return events + session.finish()


def _commits(events: list[Event]) -> list[Commit]:
    return [event for event in events if isinstance(event, Commit)]
