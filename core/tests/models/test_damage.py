"""Damage on disk that keeps a file's size."""

from __future__ import annotations

import hashlib

import pytest

from wlk_core.models import damaged_files, describe_model, plan_removal, pull

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


@pytest.fixture
def victim(tmp_path):
    """Return a file beside the cache that no pull may touch."""
    path = tmp_path / "victim"
    path.write_text("mine")
    return path


def blob_of(cache, name):
    """Return the blob of a file of the published model, and make its folder."""
    data = FILES[name]
    header = b"blob %d\0" % len(data)
    blob = hashlib.sha1(header + data).hexdigest()  # noqa: S324 -- git's choice
    folder = cache / "models--acme--base" / "blobs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / blob


def test_a_damaged_blob_without_a_pointer_is_fetched_again(spec, hub, cache):
    """A blob that is there already is compared before a pointer leads to it."""
    hub.publish("acme/base", FILES)
    blob_of(cache, "config.json").write_bytes(b"[]")

    model = pull("base", spec)

    assert (model.path / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize("ending", ["", ".incomplete"])
def test_a_link_in_the_place_of_a_blob_is_not_followed(spec, hub, cache, victim, ending):
    """A pull replaces the link; the file to which it leads stays as it is."""
    hub.publish("acme/base", FILES)
    blob = blob_of(cache, "config.json")
    blob.with_name(f"{blob.name}{ending}").symlink_to(victim)

    model = pull("base", spec)

    assert (model.path / "config.json").read_bytes() == b"{}"
    assert victim.read_text() == "mine"


def test_removing_does_not_follow_a_link_in_the_place_of_a_blob(spec, hub, cache, victim):
    """What `rm` removes is in the cache."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    blob = blob_of(cache, "config.json")
    blob.unlink()
    blob.symlink_to(victim)

    plan_removal("base", spec).execute(foreign=True)

    assert victim.read_text() == "mine"
    assert not blob.parent.exists()
