"""The models that replicas report, and the replica that suits a session."""

from __future__ import annotations

import pytest

from wlk_serve.ray.loaded_models import LoadedModels, model_rank


def loaded(*names, has_room=False):
    """Return the models of a replica with two places whose default model is a."""
    return LoadedModels(default="a", names=names, has_room=has_room, max_sessions=2)


def test_a_report_comes_back_from_plain_data():
    """Ray passes reports on as dicts; an empty one is of a replica that made none yet."""
    report = loaded("a", "b", has_room=True)

    assert report == LoadedModels.from_json(report.to_json())
    assert LoadedModels.from_json({}) is None


@pytest.mark.parametrize(
    ("rank", "report", "model", "requests"),
    [
        (0, loaded("a", "b"), "b", 0),
        (0, loaded("a"), None, 1),
        (1, loaded("b", has_room=True), None, 1),
        (1, loaded("a", has_room=True), "c", 0),
        (2, loaded("a"), "c", 0),
        (2, None, "c", 0),
        (2, None, None, 9),
        (3, loaded("c", has_room=True), "c", 2),
        (3, loaded("c", has_room=True), "c", 3),
    ],
)
def test_a_replica_with_the_model_and_a_place_suits_best(rank, report, model, requests):
    """Then one that can load it, then any other with a place; a client may name no model."""
    assert rank == model_rank(report, model, requests=requests)
