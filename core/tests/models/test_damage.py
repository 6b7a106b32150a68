"""Damage on disk that keeps a file's size."""

from __future__ import annotations

import pytest

from wlk_core.models import damaged_files, describe_model, pull

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400}


def damaged(spec, name="base"):
    """Return the damaged files of a model in the cache."""
    return damaged_files(describe_model(name, spec), spec)


def test_a_pulled_model_is_sound(spec, hub):
    """What was just pulled has its checksums."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert damaged(spec) == ()


@pytest.mark.parametrize("name", ["config.json", "model.bin"])
def test_damage_of_the_same_size_is_found_without_the_network(spec, hub, refuse_network, name):
    """A blob is named by its checksum: by git's, and in large-file storage by SHA-256."""
    hub.publish("acme/base", FILES)
    path = pull("base", spec).path / name
    path.write_bytes(bytes(len(FILES[name])))
    refuse_network()

    assert damaged(spec) == (name,)


def test_a_file_without_a_checksum_counts_as_sound(spec, hub):
    """A copy has no checksum in its name, and neither has a blob with a tag of another form."""
    hub.publish("acme/base", {"config.json": b"{}"})
    hub.etag = "tag"
    path = pull("base", spec).path / "config.json"
    path.unlink()
    path.write_bytes(b"[]")

    assert damaged(spec) == ()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["base", "digits"])
def test_a_model_outside_the_cache_has_nothing_to_check(spec, name):
    """A model that is absent or bundled has no blobs."""
    assert damaged(spec, name) == ()
