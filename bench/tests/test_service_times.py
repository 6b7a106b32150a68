"""The costs of chunks that several measurements found."""

from __future__ import annotations

import attrs
import pytest

from wlk_bench.capacity.service_times import ServiceTimes


def service(*costs, is_batching=False):
    """Return a measurement in which the chunks of each stream have one cost."""
    return attrs.evolve(
        ServiceTimes.constant(1.0),
        is_batching=is_batching,
        by_streams={1: tuple((cost, cost) for cost in costs)},
    )


def test_costs_between_two_measurements_come_from_one_of_them_in_turn():
    """A stream keeps its number; the measurement with more streams has the last ones alone."""
    before, after = service(0.1, 0.2, 0.3, 0.4), service(1.0, 2.0, 3.0)

    assert service(0.1, 2.0, 0.3, 0.4) == before.alternated(after)
    assert service(1.0, 0.2, 3.0, 0.4) == after.alternated(before)


def test_costs_of_an_engine_with_batching_are_those_of_both_measurements():
    """One trace has the runs of all streams."""
    before, after = service(0.1, is_batching=True), service(0.2, is_batching=True)

    assert service(0.1, 0.2, is_batching=True) == before.alternated(after)


def test_scaled_costs_are_a_multiple():
    """The streams and their number stay."""
    assert 0.6 == pytest.approx(service(0.2, 0.4).scaled(2.0).mean)
    assert service(0.5, 1.0) == service(0.25, 0.5).scaled(2.0)
