"""What removing a model takes away, and what it leaves."""

from __future__ import annotations

import json

import attrs
import huggingface_hub
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import list_models, plan_removal, pull

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400, "README.md": b"not needed"}


@pytest.fixture
def repo(cache):
    """Return the folder of the model in the cache."""
    return cache / "models--acme--base"


def test_removing_leaves_nothing(spec, hub, repo, records):
    """Removing a model takes away every file that its pull brought, and returns how much."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    removal = plan_removal("base", spec)

    assert removal.foreign == frozenset()
    assert removal.execute() >= 102402
    assert not repo.exists()
    assert [path for path in records.rglob("*") if path.is_file()] == []
    assert list_models([spec])[0].state == "absent"


def test_a_plan_removes_nothing(spec, hub):
    """A model is there until the plan is executed."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    plan_removal("base", spec)

    assert list_models([spec])[0].state == "pulled"


def test_removing_takes_the_rest_of_an_interrupted_pull_too(spec, hub, repo, monkeypatch):
    """What an interrupted pull left is removed like a model."""
    hub.publish("acme/base", FILES)
    fetch = huggingface_hub.hf_hub_download

    def stop(repo, name, **options):
        if name == "model.bin":
            (options["cache_dir"] / "models--acme--base/blobs/abc.12345678.incomplete").touch()
            raise KeyboardInterrupt
        return fetch(repo, name, **options)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", stop)
    with pytest.raises(KeyboardInterrupt):
        pull("base", spec)

    assert plan_removal("base", spec).execute() > 0
    assert not repo.exists()


def test_removing_keeps_what_another_backend_pulled(spec, hub):
    """Two backends share the files of a revision; removing one's leaves the other's."""
    hub.publish("acme/base", FILES)
    other = attrs.evolve(spec, name="other", model_files=("config.json", "README.md"))
    pull("base", spec)
    kept = pull("base", other).path

    freed = plan_removal("base", spec).execute()

    assert freed == len(FILES["model.bin"])
    assert (kept / "README.md").is_file()
    assert (kept / "config.json").is_file()
    assert not (kept / "model.bin").exists()
    assert list_models([other])[0].state == "pulled"


def test_the_last_of_two_backends_takes_the_shared_files_along(spec, hub, repo):
    """A file that the first pull brought goes when no backend needs it any more."""
    hub.publish("acme/base", FILES)
    other = attrs.evolve(spec, name="other")
    pull("base", spec)
    pull("base", other)

    plan_removal("base", spec).execute()
    assert list_models([other])[0].state == "pulled"
    plan_removal("base", other).execute()

    assert not repo.exists()


def test_a_repository_of_the_same_commit_stays(spec, hub, cache):
    """Copies of a repository share their commits; only the named one is removed."""
    for repo in ("acme/base", "acme/copy", "acme/twin"):
        hub.publish(repo, FILES)
        pull(repo, spec)

    plan_removal("base", spec).execute()

    assert sorted(path.name for path in cache.glob("models--*")) == [
        "models--acme--copy",
        "models--acme--twin",
    ]


def test_a_model_of_another_tool_is_foreign(spec, lay_out, repo):
    """Without consent nothing of it is removed; with it, all is."""
    lay_out(FILES)

    removal = plan_removal("base", spec)

    assert (removal.pulls, removal.brought, len(removal.foreign)) == ((), frozenset(), 3)
    assert removal.foreign_size == sum(map(len, FILES.values()))
    assert removal.execute() == 0
    assert list_models([spec])[0].state == "cached"
    assert removal.execute(foreign=True) > 102402
    assert not repo.exists()


def test_files_that_another_tool_fetched_stay(spec, hub, lay_out):
    """A pull that found a part of the model removes only what it brought itself."""
    hub.publish("acme/base", FILES)
    snapshot = lay_out({"config.json": b"{}", "README.md": b"not needed"}, revision="a" * 40)
    pull("base", spec)

    removal = plan_removal("base", spec)

    assert removal.foreign == {("a" * 40, "config.json")}
    assert removal.execute() == len(FILES["model.bin"])
    assert sorted(path.name for path in snapshot.iterdir()) == ["README.md", "config.json"]
    assert (snapshot / "config.json").read_bytes() == b"{}"


def test_a_model_that_was_pulled_for_another_backend_is_named(spec, hub):
    """A backend cannot remove what another one pulled."""
    hub.publish("acme/base", FILES)
    pull("base", attrs.evolve(spec, name="other"))

    with pytest.raises(ModelNotFoundError, match="never pulled for toy; it was pulled for other;"):
        plan_removal("base", spec)


def test_a_damaged_entry_is_removed_with_consent(spec, lay_out, repo):
    """A snapshot whose blob is gone can be removed, though the hub's library skips it."""
    snapshot = lay_out(FILES)
    (snapshot / "model.bin").resolve().unlink()

    plan_removal("base", spec).execute(foreign=True)

    assert not repo.exists()


def test_a_pulled_model_whose_blob_is_gone_can_be_removed(spec, hub, repo):
    """So can one that was pulled."""
    hub.publish("acme/base", FILES)
    (pull("base", spec).path / "model.bin").resolve().unlink()

    plan_removal("base", spec).execute()

    assert not repo.exists()


@pytest.mark.parametrize("name", ["/victim/config.json", "../../../../../victim/config.json"])
def test_a_record_that_names_a_path_removes_nothing_there(spec, hub, records, tmp_path, name):
    """A record is a file that can be edited: a path in it makes it invalid."""
    victim = tmp_path / "victim" / "config.json"
    victim.parent.mkdir()
    victim.write_text("mine")
    hub.publish("acme/base", FILES)
    pull("base", spec)
    (path,) = records.rglob("*.json")
    content = json.loads(path.read_text())
    content["files"] |= {name.replace("/victim", f"{tmp_path}/victim", 1): 4, name: 4}
    path.write_text(json.dumps(content))

    removal = plan_removal("base", spec)
    removal.execute(foreign=True)

    assert removal.pulls == ()
    assert victim.read_text() == "mine"


def test_a_file_that_no_snapshot_holds_is_passed_over(spec, hub, records, repo):
    """A record may name files that are gone."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    (path,) = records.rglob("*.json")
    content = json.loads(path.read_text())
    content["files"]["gone.bin"] = 4
    path.write_text(json.dumps(content))

    plan_removal("base", spec).execute()

    assert not repo.exists()


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("base", "base was never pulled for toy; what was: wlk-core models --backend toy"),
        ("digits", "digits is bundled and was never pulled: nothing can be removed"),
        ("./mine", "./mine is a directory of yours: it was never pulled"),
        ("huge", "toy has no model called 'huge'"),
    ],
)
def test_only_a_model_in_the_cache_can_be_removed(spec, ref, text):
    """The error about anything else names what it is."""
    with pytest.raises(ModelNotFoundError, match=text):
        plan_removal(ref, spec)
