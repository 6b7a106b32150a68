"""The models that replicas report, and the replica that suits a session."""

from __future__ import annotations

import pytest

from wlk_serve.ray.loaded_models import LoadedModels, model_rank


def loaded(*names, has_room=False):
    """Return the models of a replica whose default one is a."""
    return LoadedModels(default="a", names=names, has_room=has_room)


def test_a_report_comes_back_from_plain_data():
    """Ray passes reports on as dicts; an empty one is of a replica that made none yet."""
    report = loaded("a", "b", has_room=True)

    assert report == LoadedModels.from_json(report.to_json())
    assert LoadedModels.from_json({}) is None


@pytest.mark.parametrize(
    ("rank", "report", "model", "is_full"),
    [
        (0, loaded("a", "b"), "b", False),
        (0, loaded("a"), None, False),
        (1, loaded("b", has_room=True), None, False),
        (1, loaded("a", has_room=True), "c", False),
        (2, loaded("a"), "c", False),
        (2, None, "c", False),
        (3, loaded("c", has_room=True), "c", True),
        (3, None, None, True),
    ],
)
def test_a_replica_with_the_model_and_a_place_suits_best(rank, report, model, is_full):
    """Then one that can load it, then any other with a place; a client may name no model."""
    assert rank == model_rank(report, model, is_full=is_full)
