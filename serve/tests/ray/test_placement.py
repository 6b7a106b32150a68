"""How many replicas a load needs, and the replica that suits a session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_serve.ray.placement import model_rank, replica_count


def loaded(*names, has_room=False):
    """Return the report of a replica with two places whose default model is a."""
    return {"default": "a", "names": [*names], "has_room": has_room, "max_sessions": 2}


@given(
    sessions=st.floats(0, 10_000),
    running=st.integers(0, 500),
    max_sessions=st.integers(1, 100),
    latenesses=st.lists(st.floats(0, 20), max_size=20),
)
def test_replicas_have_places_for_every_session(sessions, running, max_sessions, latenesses):
    """Three places of ten stay free; late replicas add one more, never more than one."""
    fields = {"sessions": sessions, "running": running, "max_sessions": max_sessions}
    alone = replica_count(**fields, latenesses=[])
    count = replica_count(**fields, latenesses=latenesses)

    assert alone * max_sessions * 0.7 >= sessions - 1e-6
    assert (alone - 1) * max_sessions * 0.7 < sessions or alone == 0
    assert count in {alone, max(alone, running + 1)}


@pytest.mark.parametrize(
    ("latenesses", "expected"),
    [([], 2), ([0.1, 0.1], 2), ([0.1, 0.9], 2), ([0.6, 0.9], 3), ([0.6, 0.9, 0.1], 3)],
)
def test_another_replica_is_needed_where_most_are_late(latenesses, expected):
    """One late replica of two has bad luck; two of three need help."""
    count = replica_count(sessions=10, running=2, max_sessions=10, latenesses=latenesses)

    assert expected == count


@pytest.mark.parametrize(
    ("rank", "report", "model", "requests"),
    [
        (0, loaded("a", "b"), "b", 0),
        (0, loaded("a"), None, 1),
        (1, loaded("b", has_room=True), None, 1),
        (1, loaded("a", has_room=True), "c", 0),
        (2, loaded("a"), "c", 0),
        (2, {}, "c", 0),
        (2, {}, None, 9),
        (3, loaded("c", has_room=True), "c", 2),
        (3, loaded("c", has_room=True), "c", 3),
    ],
)
def test_a_replica_with_the_model_and_a_place_suits_best(rank, report, model, requests):
    """Then one that can load it, then any other with a place; a client may name no model."""
    assert rank == model_rank(report, model, requests=requests)
