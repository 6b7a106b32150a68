"""The conformance suite detects an engine whose caches change in place."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs

from wlk_conformance.backend_under_test import find_backend
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import judge
from wlk_conformance.suite import BackendConformance
from wlk_nemotron.torch.network import NemotronEngine

RULE = "ERR-02"  # which the sound engine keeps: the session `conformance` proves it


def verdicts() -> set[str]:
    """Return the outcomes of the tests for RULE on the digits."""
    under_test = find_backend("nemotron", model="digits", rules=(RULE,))
    suite = BackendConformance()
    outcomes = {
        judge(declared, partial(test, suite), under_test, [].append).status
        for declared, test in rule_tests(BackendConformance)
        if declared.id == RULE
    }
    under_test.close()
    return outcomes


def test_caches_that_change_in_place_are_found(monkeypatch):
    """A call that fails has already advanced them, so repeating it decodes the audio twice."""
    decode_batch = NemotronEngine.decode_batch
    states: dict[int, tuple[Any, Any]] = {}  # by id: a state, and the one that replaces it

    def in_place(self, requests):
        moved = [
            attrs.evolve(request, state=states.get(id(request.state), (None, request.state))[1])
            for request in requests
        ]
        answers = decode_batch(self, moved)
        for request, (_, state, _) in zip(requests, answers, strict=True):
            if request.state is not None:
                states[id(request.state)] = request.state, state
        return answers

    monkeypatch.setattr(NemotronEngine, "decode_batch", in_place)

    assert "fail" in verdicts()
