"""What removing a model takes away, and what it asks before."""

from __future__ import annotations

import attrs
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import list_models, plan_removal, pull

FILES = {
    "config.json": b"{}",
    "model.bin": bytes(range(256)) * 400,
    "README.md": b"---\nlicense: mit\n---\n",
    "notes.txt": b"not needed",
}


@pytest.fixture
def repo(cache):
    """Return the folder of the model in the cache."""
    return cache / "models--acme--base"


def test_removing_leaves_nothing(spec, hub, repo, records):
    """Removing takes away every file and record, and a plan alone takes away nothing."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    removal = plan_removal("base", spec)

    assert (removal.users, removal.size >= 102402) == ((), True)
    assert list_models([spec])[0].state == "pulled"

    removal.execute()

    assert not repo.exists()
    assert [path for path in records.rglob("*") if path.is_file()] == []
    assert list_models([spec])[0].state == "absent"


def test_the_rest_of_an_interrupted_pull_is_removed_without_a_question(spec, hub, repo):
    """It has no other users."""
    hub.publish("acme/base", FILES)
    hub.file_answer = (403, {}, b"")
    with pytest.raises(ModelNotFoundError):
        pull("base", spec)
    removal = plan_removal("base", spec)
    removal.execute()

    assert removal.users == ()
    assert not repo.exists()


def test_other_backends_may_still_use_a_model(spec, hub):
    """A model that was pulled for two backends is both's, whichever was first."""
    hub.publish("acme/base", FILES)
    other = attrs.evolve(spec, name="other", model_files=("config.json", "notes.txt"))
    pull("base", spec)
    pull("base", other)

    assert plan_removal("base", spec).users == ("other",)
    assert plan_removal("base", other).users == ("toy",)


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_another_tool_may_still_use_what_it_fetched(spec, hub, lay_out, is_before):
    """It may have fetched files of the model before the pull or after it."""
    hub.publish("acme/base", FILES)
    if is_before:
        lay_out({"config.json": b"{}"}, revision="a" * 40)
        pull("base", spec)
    else:
        pull("base", spec)
        lay_out({"notes.txt": b"not needed"}, revision="a" * 40)

    assert plan_removal("base", spec).users == ("another tool",)


def test_a_model_of_another_tool_can_be_removed(spec, lay_out, repo):
    """It need not have been pulled, and one of its blobs may be gone."""
    (lay_out(FILES) / "model.bin").resolve().unlink()
    removal = plan_removal("base", spec)
    removal.execute()

    assert removal.users == ("another tool",)
    assert not repo.exists()


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("base", "base is not in the cache; what is: wlk-core models --backend toy"),
        ("digits", "digits is bundled and was never pulled: nothing can be removed"),
        ("./mine", "./mine is local and was never pulled: nothing can be removed"),
        ("huge", "toy has no model called 'huge'"),
    ],
)
def test_only_a_model_in_the_cache_can_be_removed(spec, ref, text):
    """The error about anything else names what it is."""
    with pytest.raises(ModelNotFoundError, match=text):
        plan_removal(ref, spec)
