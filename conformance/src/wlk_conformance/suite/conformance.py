"""The class that the author of a backend subclasses."""

from __future__ import annotations

from typing import Any, ClassVar

from wlk_conformance.rules import SUITE_VERSION
from wlk_conformance.suite.audio_in import AudioRules
from wlk_conformance.suite.failure import FailureRules
from wlk_conformance.suite.lifecycle import LifeRules
from wlk_conformance.suite.packaging import PackagingRules
from wlk_conformance.suite.quality import QualityRules
from wlk_conformance.suite.resources import ResourceRules
from wlk_conformance.suite.sharing import BatchingRules, SharingRules
from wlk_conformance.suite.silence import SilenceRules
from wlk_conformance.suite.speakers import SpeakerRules
from wlk_conformance.suite.text import HypothesisRules, TextRules
from wlk_conformance.suite.times import TimeRules

__all__ = ["BackendConformance"]


class BackendConformance(  # tests run in the order of the contract: the last base first
    QualityRules,
    ResourceRules,
    FailureRules,
    BatchingRules,
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

    Attributes:
        backend: the name of an installed backend.
        model: the model to load, None for the spec's default.
        options: options of the backend and its streams, by name.
        words: "digits" if the model recognises spoken English digits, or a folder of recordings,
            each with a .txt of its words; the suite then compares them with what came.  None where
            the spec's `digit_models` states it.
        suite: the version of the suite to be judged by; failures of newer rules are advisory.

    """

    backend: ClassVar[str] = ""
    model: ClassVar[str | None] = None
    options: ClassVar[dict[str, Any]] = {}
    words: ClassVar[str | None] = None
    suite: ClassVar[str] = SUITE_VERSION

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        overridden = sorted(
            name
            for name in vars(cls)
            if name.startswith("test_") and hasattr(BackendConformance, name)
        )
        if overridden:
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(overridden)}; "
                "declare a deviation in the backend's spec instead"
            )
