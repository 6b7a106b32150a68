"""The suite detects an engine that ignores that sherpa-onnx streams cannot be rolled back."""

from __future__ import annotations

from functools import partial

import pytest

from wlk_conformance.backend_under_test import find_backend
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import judge
from wlk_conformance.suite import BackendConformance
from wlk_sherpa.engine.engine import SherpaEngine


def verdicts(rule: str) -> set[str]:
    """Return the outcomes of the tests of *rule* on the digits model."""
    under_test = find_backend("sherpa", model="digits", rules=(rule,))
    suite = BackendConformance()
    outcomes = {
        judge(declared, partial(test, suite), under_test, [].append).status
        for declared, test in rule_tests(BackendConformance)
        if declared.id == rule
    }
    under_test.close()
    return outcomes


# The sound engine keeps them: the session `conformance` proves it.
RULES = ("ERR-02", "ISO-07")


@pytest.mark.parametrize("rule", RULES)
def test_a_stream_that_goes_on_from_a_changed_state_is_found(
    monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """A failed call has changed its stream, which must not be used for the next attempt."""
    stream_for = SherpaEngine._stream_for
    monkeypatch.setattr(
        SherpaEngine,
        "_stream_for",
        lambda self, request: request.stream or stream_for(self, request),
    )

    assert "fail" in verdicts(rule)
