"""What removing a model takes away."""

from __future__ import annotations

import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import cached_repo, list_models, pull


def test_removing_leaves_nothing(spec, hub, cache):
    """Removing takes away every file, whichever tool brought it."""
    hub.publish("acme/base", {"config.json": b"{}", "model.bin": bytes(1000)})
    pull("base", spec)
    repo = cached_repo("base", spec)
    size = repo.size
    repo.remove()

    assert size >= 1002
    assert not (cache / "models--acme--base").exists()
    assert list_models([spec])[0].state == "absent"


def test_a_model_of_which_a_file_is_gone_can_be_removed(spec, lay_out):
    """A link that leads nowhere has no size."""
    snapshot = lay_out({"config.json": b"{}", "model.bin": bytes(1000)})
    (snapshot / "model.bin").resolve().unlink()
    repo = cached_repo("base", spec)
    repo.remove()

    assert not repo.folder.exists()


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
        cached_repo(ref, spec)
