"""The suite: all rules in the class that authors subclass, and the text of ``--explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from wlk_conformance.rules import RULES, SUITE_VERSION, rule_tests
from wlk_conformance.suite.audio_in import AudioRules
from wlk_conformance.suite.failure import FailureRules
from wlk_conformance.suite.hypotheses import HypothesisRules
from wlk_conformance.suite.life_cycle import LifeRules
from wlk_conformance.suite.packaging import PackagingRules
from wlk_conformance.suite.quality import QualityRules
from wlk_conformance.suite.resources import ResourceRules
from wlk_conformance.suite.sharing import SharingRules
from wlk_conformance.suite.silence import SilenceRules, SpeakerRules
from wlk_conformance.suite.text import TextRules
from wlk_conformance.suite.times import TimeRules
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = {
    "G": "any model",
    "O": "known words",
    "S": "known speech",
    "F": "an engine that can be made to fail",
}


class BackendConformance(  # tests run in the order of the contract: the last base first
    QualityRules,
    ResourceRules,
    FailureRules,
    SharingRules,
    LifeRules,
    SpeakerRules,
    SilenceRules,
    TimeRules,
    HypothesisRules,
    TextRules,
    AudioRules,
    PackagingRules,
):
    """
    The contract, as tests of a backend.

    A test module of the backend contains::

        class TestParakeet(BackendConformance):
            backend = "parakeet"
            model = "tests/tiny-model"

    A rule that a backend cannot keep is declared in its spec as a deviation, with the reason.  A
    subclass that overrides a test is refused.
    """

    backend: ClassVar[str] = ""  #: the name of an installed backend
    model: ClassVar[str | None] = None  #: the model to load, None for the spec's default
    options: ClassVar[dict[str, Any]] = {}  #: options of the backend and its streams, by name
    #: What the model recognises: English "digits", or a folder of recordings, each with a .txt of
    #: its words; None if the spec's `digit_models` states it.
    words: ClassVar[str | None] = None
    suite: ClassVar[str] = SUITE_VERSION  #: pinned version; failures of newer rules are advisory

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = {declared.name for declared, _ in rule_tests(BackendConformance)}
        if overridden := sorted(names & vars(cls).keys()):
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(overridden)}; "
                "declare a deviation in the backend's spec instead"
            )


def check_rules(ids: Iterable[str]) -> None:
    """Raise OptionError, naming the rules of the same family, if an id is not in the contract."""
    for name in ids:
        if name not in RULES:
            family = [rule for rule in RULES if rule.startswith(name.partition("-")[0].upper())]
            raise OptionError(
                f"no rule {name!r} in the contract; expected one of: {', '.join(family or RULES)}"
            )


def explain(rule_id: str) -> str:
    """Return what a rule demands, the usual causes of a failure and the command that tests it."""
    check_rules([rule_id])
    lines = [rule_id]
    for test, _ in rule_tests(BackendConformance):
        if test.id != rule_id:
            continue
        kinds = " or ".join(KINDS[kind] for kind in test.kinds.split(","))
        declared = f", if {test.requires} is declared" if test.requires else ""
        lines += ["", test.sentence, f"  judged on: {kinds}{declared}"]
        if test.tier != "contract":
            lines.append(f"  tier: {test.tier}, with --{test.tier}")
        lines.append(f"  since: suite {test.since}")
        lines += ["  usual causes:"] if test.causes else []
        lines += [f"    - {cause}" for cause in test.causes]
    return "\n".join([*lines, "", f"run it with: wlk-conformance BACKEND --rule {rule_id}"])
