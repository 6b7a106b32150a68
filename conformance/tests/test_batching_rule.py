"""A backend that takes engine calls together and does it well keeps every rule."""

from __future__ import annotations

from faulty_backends.base import FaultyCase, broken_rules
from faulty_backends.sharing import BATCHING, BatchingBackend
import pytest

from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load


@pytest.mark.slow
def test_a_sound_backend_with_batching_breaks_no_rule() -> None:
    """The faulty backends of ISO-07 differ from it by their faults alone."""

    def make(model: str | None = None) -> BatchingBackend:
        load(SCRIPTED_SPEC, model).close()  # refuses a model that does not exist
        return BatchingBackend()

    case = FaultyCase(
        name="sound", rule="", detector="tests", sentence="", make=make, spec=BATCHING
    )

    assert {} == broken_rules(case.under_test())
