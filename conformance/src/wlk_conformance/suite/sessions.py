"""Rules in sessions that were generated: every rule, whatever callers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.sessions.campaign import Campaign
from wlk_conformance.sessions.growth import measure_growth

if TYPE_CHECKING:
    from wlk_conformance.backend_under_test import BackendUnderTest

__all__ = ["SessionRules"]

LEAK = 4096  # bytes that each of the last rounds may leave allocated, on average
MORE_CALLS = 1.25  # engine calls of the last round relative to an early one


class SessionRules:
    """Rules in generated sessions, and what the suite measures by itself."""

    @rule("COM-04", causes=("state of one stream or call reaches another",))
    def test_generated_sessions_keep_every_rule(self, wlk: BackendUnderTest) -> None:
        """Sessions drawn from a seed keep every rule; one that does not fails under its rule."""
        campaign = Campaign(wlk, seed=wlk.seed, is_long="long" in wlk.tiers)
        if wlk.replay is not None:
            violation = campaign.violation_of(wlk.replay)
            findings = [campaign.smallest(wlk.replay, violation)] if violation else []
        else:
            count = campaign.default_count if wlk.sessions is None else wlk.sessions
            if not count:
                raise NotApplicable("no sessions are generated: --sessions")
            findings = campaign.run(count)
            wlk.note(f"{count} sessions of seed {wlk.seed}")
        wlk.forget_session()
        for finding in findings:
            wlk.found_in_session(finding, campaign.explain(finding))

    @rule(
        "RES-01", causes=("audio, text or results are kept, and state_bytes does not count them",)
    )
    def test_memory_that_is_measured_does_not_grow(self, wlk: BackendUnderTest) -> None:
        """Memory that Python allocates in a stream does not grow, whatever the counters report."""
        growth = measure_growth(wlk)
        least = min(growth.bytes_left)
        wlk.note(f"{max(0, least)} bytes more in each round of {growth.seconds:g} s")
        assert least <= LEAK, (
            f"each of the last {len(growth.bytes_left)} rounds of {growth.seconds:g} s left "
            f"{least} bytes or more allocated: {growth.bytes_left}"
        )

    @rule("RES-02", causes=("the engine runs more often the longer the stream is",))
    def test_engine_calls_that_are_counted_do_not_grow(self, wlk: BackendUnderTest) -> None:
        """Engine calls for each second of audio do not grow, whatever the counters report."""
        calls = measure_growth(wlk).engine_calls
        if not calls:
            raise NotApplicable("engine calls cannot be counted (see SupportsEngineCalls)")
        assert calls[-1] <= MORE_CALLS * max(calls[1:3]), (
            f"the rounds of a stream made {calls} engine calls"
        )
