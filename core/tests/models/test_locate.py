"""From a model reference to a directory."""

from __future__ import annotations

import json

import attrs
from huggingface_hub import snapshot_download
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import list_models, locate, pull

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400, "README.md": b"not needed"}


@pytest.fixture
def directory(tmp_path):
    """Return a local model."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.usefixtures("no_network")
def test_a_local_directory_is_used_as_it_is(spec, directory):
    """A directory that holds what is needed is the model; the network is not touched."""
    assert directory == locate(str(directory), spec=spec)


@pytest.mark.usefixtures("no_network")
def test_a_relative_directory_beats_a_repository_of_that_name(spec, directory, monkeypatch):
    """A directory on disk is never looked up on a hub."""
    monkeypatch.chdir(directory.parent)
    (directory.parent / "acme").mkdir()
    directory.rename(directory.parent / "acme" / "base")
    plain = attrs.evolve(spec, models={})

    found = locate("acme/base", spec=plain)

    assert directory.parent / "acme" / "base" == found.resolve()


def test_an_alias_beats_a_directory_of_that_name(spec, cache, hub, tmp_path, monkeypatch):
    """A folder that happens to be called like an alias does not replace it."""
    hub.publish("acme/base", FILES)
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)

    assert locate("base", spec=spec).is_relative_to(cache)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("ref", ["./nowhere", "~root/no-such-model", "~no-such-user/model"])
def test_a_missing_directory_is_no_repository(spec, ref):
    """A path that leads nowhere is an error and is not looked up on a hub."""
    fault = f"model {ref}: expected a directory, and it does not exist"

    with pytest.raises(ModelNotFoundError, match=fault):
        locate(ref, spec=spec)


def test_a_file_is_no_model(spec, directory):
    """The error about a path to a file names what is expected."""
    with pytest.raises(ModelNotFoundError, match="expected a directory, and it is a file"):
        locate(str(directory / "config.json"), spec=spec)


def test_a_directory_without_the_weights_names_what_is_missing(spec, directory):
    """A directory that lacks a needed file names the pattern."""
    with pytest.raises(ModelNotFoundError, match=r"holds no \*.bin, which toy needs"):
        locate(str(directory), spec=spec, needs=("config.json", "*.bin"))


@pytest.mark.usefixtures("no_network")
def test_a_bundled_model_comes_from_the_wheel(spec, directory):
    """A bundled alias is the directory that the plugin passes."""
    assert directory == locate("digits", spec=spec, bundled={"digits": directory})


def test_a_damaged_bundled_model_names_what_to_reinstall(spec, tmp_path):
    """A bundled model whose files are gone is a damaged installation."""
    with pytest.raises(ModelNotFoundError, match="digits should have come with the plugin of toy"):
        locate("digits", spec=spec, bundled={"digits": tmp_path})


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "ref", ["huge", "", "a/b/c", "acme/../base", "acme/ä", "acme/-base-", "a--b/c", "acme/base.git"]
)
def test_an_unknown_model_lists_the_known_ones(spec, ref):
    """A name that is no alias, repository id or directory is answered with the choices."""
    with pytest.raises(ModelNotFoundError) as caught:
        locate(ref, spec=spec)

    assert str(caught.value) == (
        f"toy has no model called {ref!r}; expected one of base, digits, a repository id "
        "(owner/name) or a directory; get one with: wlk-core pull MODEL --backend toy"
    )


@pytest.mark.parametrize("ref", ["base", "acme/base"])
def test_a_model_that_is_absent_is_pulled(spec, hub, cache, ref):
    """A model on the hub arrives in its cache, with the files the backend names and no other."""
    hub.publish("acme/base", FILES)

    found = locate(ref, spec=spec)

    assert found == cache / "models--acme--base" / "snapshots" / ("a" * 40)
    assert (found / "model.bin").read_bytes() == FILES["model.bin"]
    assert not (found / "README.md").exists()


def test_a_pulled_model_needs_no_network_again(spec, hub, refuse_network):
    """A cached model is found without a connection."""
    hub.publish("acme/base", FILES)
    first = locate("base", spec=spec)
    refuse_network()

    assert first == locate("base", spec=spec)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("how", ["argument", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_an_absent_model_names_the_command(spec, how, monkeypatch):
    """Offline mode never touches the network, and names what to run while online."""
    if how != "argument":
        monkeypatch.setenv(how, "1")

    with pytest.raises(ModelNotFoundError) as caught:
        locate("base", spec=spec, offline=True if how == "argument" else None)

    assert str(caught.value) == (
        "model base is not on this machine and the network is switched off; "
        "get it while online with: wlk-core pull base --backend toy"
    )


def test_a_repository_without_a_needed_file_is_no_model(spec, hub):
    """A pulled model that lacks what the backend needs names what is missing."""
    hub.publish("acme/base", {"config.json": b"{}"})

    with pytest.raises(ModelNotFoundError, match=r"acme/base is no model for toy: it holds no m"):
        locate("base", spec=spec, needs=("config.json", "model.bin"))


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "argument"])
def test_another_cache_is_honoured(spec, hub, tmp_path, monkeypatch, variable):
    """The variables of the hub's tools, and the option, choose the cache."""
    hub.publish("acme/base", FILES)
    other = tmp_path / "else"
    if variable != "argument":
        monkeypatch.setenv(variable, str(other))

    found = locate("base", spec=spec, cache_dir=other if variable == "argument" else None)

    assert found.is_relative_to(other / "hub" if variable == "HF_HOME" else other)


def test_a_cache_in_the_home_of_an_unknown_user_is_one_line(spec, monkeypatch):
    """A home directory that does not exist is named with what helps."""
    monkeypatch.setenv("HF_HUB_CACHE", "~no-such-user/models")

    with pytest.raises(ModelNotFoundError, match="names a home directory that does not exist; set"):
        locate("base", spec=spec)


@pytest.mark.usefixtures("no_network")
def test_a_model_of_another_tool_is_used_without_network(spec, lay_out):
    """A model that another tool fetched is used in its snapshot."""
    snapshot = lay_out(FILES)

    assert snapshot == locate("base", spec=spec, offline=True)
    assert [row.state for row in list_models([spec])] == ["cached", "bundled"]


def test_a_model_that_the_hubs_library_fetched_is_used_offline(spec, hub, cache, refuse_network):
    """A snapshot of huggingface_hub itself is a model."""
    hub.publish("acme/base", FILES)
    path = snapshot_download("acme/base", cache_dir=cache, endpoint=hub.url)
    refuse_network()

    assert path == str(locate("base", spec=spec, offline=True))


def test_the_hubs_library_finds_a_pulled_model_offline(spec, hub, cache):
    """A model that a pull brought is one for every other tool."""
    hub.publish("acme/base", FILES)
    pulled = pull("base", spec)

    path = snapshot_download("acme/base", cache_dir=cache, local_files_only=True)

    assert path == str(pulled.path)


SHARDS = {f"model-0000{number}-of-00003.bin": b"%d" % number for number in (1, 2, 3)}


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"config.json": b"{}"}, "no weights"),
        ({"model.bin": b"x"}, "no needed file"),
        ({"config.json": b"{}", **dict(list(SHARDS.items())[:2])}, "a shard is missing"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_an_incomplete_model_of_another_tool_does_not_count(spec, lay_out, files, reason):
    """A snapshot that lacks weights, a needed file or a shard is no model."""
    lay_out(files)

    with pytest.raises(ModelNotFoundError, match="base is not complete in the cache and the netw"):
        locate("base", spec=spec, offline=True)
    assert reason


@pytest.mark.usefixtures("no_network")
def test_all_shards_are_a_model(spec, lay_out):
    """A model in parts is complete when the last part is there."""
    snapshot = lay_out({"config.json": b"{}", **SHARDS})

    assert snapshot == locate("base", spec=spec)


@pytest.mark.usefixtures("no_network")
def test_a_pointer_that_leads_nowhere_is_no_file(spec, lay_out):
    """A snapshot whose blob is gone does not count."""
    snapshot = lay_out(FILES)
    (snapshot / "model.bin").resolve().unlink()

    with pytest.raises(ModelNotFoundError, match="is not complete"):
        locate("base", spec=spec, offline=True)
    assert list_models([spec])[0].state == "incomplete"


@pytest.mark.usefixtures("no_network")
def test_a_pointer_to_a_file_that_the_backend_does_not_load_may_lead_nowhere(spec, lay_out):
    """Only the files of the model have to be there."""
    snapshot = lay_out(FILES)
    (snapshot / "README.md").resolve().unlink()

    assert snapshot == locate("base", spec=spec, offline=True)


@pytest.mark.usefixtures("no_network")
def test_an_unfinished_download_of_another_tool_does_not_count(spec, lay_out):
    """A part of a file beside the blobs is a download that was interrupted."""
    snapshot = lay_out(FILES)
    part = snapshot.parents[1] / "blobs" / f"{'c' * 40}.incomplete"
    part.write_bytes(b"half")

    with pytest.raises(ModelNotFoundError, match="is not complete"):
        locate("base", spec=spec, offline=True)

    part.with_name("c" * 40).write_bytes(b"half and half")

    assert snapshot == locate("base", spec=spec, offline=True)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("size", "is_complete"), [(102400, True), (999, False)], ids=["whole", "short"]
)
def test_the_tree_listing_of_newer_tools_decides(spec, lay_out, size, is_complete):
    """Where the hub's library left its list of files, every selected one must have its size."""
    snapshot = lay_out(FILES)
    trees = snapshot.parents[1] / "trees"
    trees.mkdir()
    listing = {"config.json": {"size": 2}, "model.bin": {"size": size}, "other.md": {"size": 5}}
    (trees / f"{snapshot.name}.json").write_text(json.dumps({"files": listing}))

    states = [row.state for row in list_models([spec])]

    assert states[0] == ("cached" if is_complete else "incomplete")


@pytest.mark.parametrize("content", ["{", "[]", '{"files": {"a": 1}}', '{"files": {}}'])
def test_a_tree_listing_of_another_form_is_passed_over(spec, lay_out, content):
    """A listing that cannot be read leaves the other signs of a complete model."""
    snapshot = lay_out(FILES)
    trees = snapshot.parents[1] / "trees"
    trees.mkdir()
    (trees / f"{snapshot.name}.json").write_text(content)

    assert list_models([spec])[0].state == "cached"


@pytest.mark.parametrize("main", ["", "../../../../etc", "/etc", "\udcff"], ids=repr)
def test_a_branch_that_is_no_commit_is_no_model(spec, lay_out, main):
    """The file refs/main is data: nothing is joined to a path that is not a commit."""
    snapshot = lay_out(FILES)
    ref = snapshot.parents[1] / "refs" / "main"
    ref.write_bytes(main.encode(errors="surrogateescape"))

    with pytest.raises(ModelNotFoundError, match="base is not complete in the cache"):
        locate("base", spec=spec, offline=True)


def test_a_partial_model_of_another_tool_is_completed(spec, lay_out, hub):
    """A cache that holds only some of the needed files is no model; the rest is pulled."""
    hub.publish("acme/base", FILES)
    lay_out({"config.json": b"{}"})

    found = locate("base", spec=spec, needs=("config.json", "model.bin"))

    assert (found / "model.bin").read_bytes() == FILES["model.bin"]
