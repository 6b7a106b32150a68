"""Turning a model reference into a directory."""

from __future__ import annotations

import os
import sys

import attrs
from huggingface_hub import snapshot_download
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import list_models, locate

FILES = {
    "config.json": b"{}",
    "model.bin": bytes(range(256)) * 400,
    "README.md": b"---\nlicense: mit\n---\n",
    "notes.txt": b"not needed",
}


@pytest.fixture
def directory(tmp_path):
    """Return a local model."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.usefixtures("no_network")
def test_a_local_directory_is_used_as_it_is(spec, directory):
    """A directory with the needed files is the model; the network is not used."""
    assert locate(str(directory), spec=spec) == directory


@pytest.mark.usefixtures("no_network")
def test_the_folder_of_a_repository_in_a_cache_is_its_snapshot(spec, lay_out):
    """A path copied from a cache names the folder above the model's files."""
    snapshot = lay_out(FILES)

    assert locate(str(snapshot.parent.parent), spec=spec) == snapshot


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such names")
def test_a_path_that_is_not_utf_8_is_one_line(spec, tmp_path):
    """Engines open files by UTF-8 names, and fail on others with an internal error."""
    ref = f"{tmp_path}/{os.fsdecode(bytes([0xFF]))}"

    with pytest.raises(ModelNotFoundError, match=r"udcff: the directory .* not UTF-8") as caught:
        locate(ref, spec=spec)
    assert str(caught.value).isprintable()


def test_an_alias_beats_a_directory_of_that_name(spec, cache, hub, tmp_path, monkeypatch):
    """A folder that happens to have the name of an alias does not replace it."""
    hub.publish("acme/base", FILES)
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)

    assert locate("base", spec=spec).is_relative_to(cache)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("ref", ["./nowhere", "~root/no-such-model", "~no-such-user/model"])
def test_a_missing_directory_is_no_repository(spec, ref):
    """A path that does not exist is an error and is not looked up on the hub."""
    with pytest.raises(ModelNotFoundError, match=f"model {ref}: .* is not a directory; get one"):
        locate(ref, spec=spec)


def test_a_directory_without_the_weights_names_what_is_missing(spec, directory):
    """The error names the pattern that no file matches."""
    with pytest.raises(ModelNotFoundError, match=r"holds no \*.bin; get one with: wlk-core"):
        locate(str(directory), spec=spec, needs=("config.json", "*.bin"))


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("ref", ["digits", "Digits", "DIGITS"])
def test_a_bundled_model_comes_from_the_wheel(spec, directory, ref):
    """A bundled alias, in upper or lower case, is the directory that the plugin passes."""
    assert locate(ref, spec=spec, bundled={"digits": directory}) == directory


def test_a_damaged_bundled_model_names_what_to_reinstall(spec, tmp_path):
    """If the files of a bundled model are gone, the installation is damaged."""
    with pytest.raises(
        ModelNotFoundError, match="bundled model digits of toy is incomplete: install"
    ):
        locate("digits", spec=spec, bundled={"digits": tmp_path})


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "ref", ["huge", "", "a/b/c", "acme/../base", "acme/ä", "acme/-base-", "a--b/c", "acme/base.git"]
)
def test_an_unknown_model_lists_the_known_ones(spec, ref):
    """A name that is not an alias, repository id or directory is an error with the choices."""
    with pytest.raises(ModelNotFoundError) as caught:
        locate(ref, spec=spec)

    assert str(caught.value) == (
        f"toy has no model called {ref!r}; expected one of base, digits, a repository id "
        "(owner/name) or a directory; get one with: wlk-core pull MODEL --backend toy"
    )


@pytest.mark.parametrize("ref", ["base", "acme/base"])
def test_a_model_that_is_absent_is_pulled(spec, hub, cache, ref):
    """The cache receives the model card and the files that the backend names, and no others."""
    hub.publish("acme/base", FILES)

    found = locate(ref, spec=spec)

    assert found == cache / "models--acme--base" / "snapshots" / ("a" * 40)
    assert (found / "model.bin").read_bytes() == FILES["model.bin"]
    assert (found / "README.md").exists()
    assert not (found / "notes.txt").exists()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize("cache_dir", [None, "~no-such-user/hub"])
def test_offline_an_absent_model_names_the_command(spec, variable, cache_dir, monkeypatch):
    """Offline mode never uses the network, and names the command, whatever the cache."""
    monkeypatch.setenv(variable, "1")

    with pytest.raises(ModelNotFoundError) as caught:
        locate("base", spec=spec, cache_dir=cache_dir)

    assert str(caught.value) == (
        "model base is not on this machine and the network is switched off; "
        "get it while online with: wlk-core pull base --backend toy"
    )


def test_a_repository_without_a_needed_file_is_no_model(spec, hub):
    """The error for a pulled model names the needed files that it lacks."""
    hub.publish("acme/base", {"config.json": b"{}"})

    with pytest.raises(
        ModelNotFoundError, match=r"acme/base is not a model for toy: it holds no m"
    ):
        locate("base", spec=spec, needs=("config.json", "model.bin"))


def test_another_cache_is_honoured(spec, hub, tmp_path):
    """The option cache_dir chooses the cache."""
    hub.publish("acme/base", FILES)
    other = tmp_path / "$HOME"

    assert locate("base", spec=spec, cache_dir=other).is_relative_to(other)


@pytest.mark.usefixtures("no_network")
def test_a_model_of_another_tool_is_used_without_network(spec, lay_out, locate_offline):
    """A model that another tool downloaded is used from its snapshot."""
    snapshot = lay_out(FILES)

    assert locate_offline("base", spec=spec) == snapshot
    assert [row.state for row in list_models([spec])] == ["cached", "bundled"]


@pytest.mark.usefixtures("no_network")
def test_a_model_that_is_not_here_has_the_declared_size_and_licence(spec, lay_out):
    """Once it is cached, the size is that of its files; a card that names a licence decides."""
    spec = attrs.evolve(spec, model_sizes={"base": 2_000}, model_licences={"base": "openmdw"})
    absent, bundled = list_models([spec])
    lay_out(FILES)
    cached, _ = list_models([spec])

    assert (absent.state, absent.size, absent.licence) == ("absent", 2_000, "openmdw")
    assert (bundled.size, bundled.licence) == (None, "")
    assert (cached.state, cached.licence) == ("cached", "mit")
    assert cached.size == len(FILES["config.json"]) + len(FILES["model.bin"])


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"config.json": b"{}"}, "no weights"),
        ({"model.bin": b"x"}, "no needed file"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_an_incomplete_model_of_another_tool_does_not_count(
    spec, lay_out, files, reason, locate_offline
):
    """A snapshot without weights, or without a needed file, does not count."""
    lay_out(files)

    with pytest.raises(ModelNotFoundError, match="base is not complete in the cache and the netw"):
        locate_offline("base", spec=spec)
    assert reason


@pytest.mark.usefixtures("no_network")
def test_a_pointer_that_leads_nowhere_is_no_file(spec, lay_out, locate_offline):
    """A snapshot whose blob is gone does not count."""
    snapshot = lay_out(FILES)
    (snapshot / "model.bin").resolve().unlink()

    with pytest.raises(ModelNotFoundError, match="is not complete"):
        locate_offline("base", spec=spec)
    assert list_models([spec])[0].state == "incomplete"


@pytest.mark.parametrize("content", [None, b"short"], ids=["missing", "short"])
def test_the_list_of_files_that_the_hubs_library_left_decides(
    spec, hub, cache, refuse_network, content
):
    """Every file that the backend loads must have the size in the list."""
    hub.publish("acme/base", FILES)
    folder = snapshot_download("acme/base", cache_dir=cache)
    refuse_network()
    path = (cache / folder / "model.bin").resolve()
    path.unlink() if content is None else path.write_bytes(content)

    assert [row.state for row in list_models([spec])] == ["incomplete", "bundled"]


def test_a_partial_model_of_another_tool_is_completed(spec, lay_out, hub):
    """If a cache holds only some of the needed files, the rest are pulled."""
    hub.publish("acme/base", FILES)
    lay_out({"config.json": b"{}"})

    found = locate("base", spec=spec, needs=("config.json", "model.bin"))

    assert (found / "model.bin").read_bytes() == FILES["model.bin"]
