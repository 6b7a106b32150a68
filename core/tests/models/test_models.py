from __future__ import annotations

import errno
import json
import socket

import attrs
import pytest

from wlk_core import ModelNotFoundError, _hub
from wlk_core.models import list_models, locate, pull, remove

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400, "README.md": b"not needed"}


@pytest.fixture
def no_network(monkeypatch):
    """Let any attempt to open a connection fail loudly."""

    def refuse(*_arguments, **_options):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def directory(tmp_path):
    """Return a local model."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def files_below(folder):
    """Return every file below a folder, by relative name."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.usefixtures("no_network")
def test_a_local_directory_is_used_as_it_is(spec, directory):
    """A directory that holds what is needed is the model; the network is not touched."""
    assert locate(str(directory), spec=spec) == directory


@pytest.mark.usefixtures("no_network")
def test_a_relative_directory_beats_a_repository_of_that_name(spec, directory, monkeypatch):
    """What exists on disk is never looked up on a hub."""
    monkeypatch.chdir(directory.parent)
    (directory.parent / "acme").mkdir()
    directory.rename(directory.parent / "acme" / "base")
    plain = attrs.evolve(spec, models={})

    found = locate("acme/base", spec=plain)

    assert found.resolve() == directory.parent / "acme" / "base"


def test_an_alias_beats_a_directory_of_that_name(spec, cache, hub, tmp_path, monkeypatch):
    """A folder that happens to be called like an alias does not take its place."""
    hub.publish("acme/base", FILES)
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)

    assert locate("base", spec=spec).is_relative_to(cache)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("ref", "fault"),
    [("./nowhere", "it does not exist"), ("~nobody/model", "it does not exist")],
)
def test_a_missing_directory_is_no_repository(spec, ref, fault):
    """A path that leads nowhere says so and is not looked up on a hub."""
    with pytest.raises(ModelNotFoundError, match=f"model {ref}: expected a directory, and {fault}"):
        locate(ref, spec=spec)


def test_a_file_is_no_model(spec, directory):
    """A path to a file says that a directory is expected."""
    with pytest.raises(ModelNotFoundError, match="expected a directory, and it is a file"):
        locate(str(directory / "config.json"), spec=spec)


def test_a_directory_without_the_weights_names_what_is_missing(spec, directory):
    """A directory that lacks a needed file names the pattern."""
    with pytest.raises(ModelNotFoundError, match=r"holds no \*.bin, which toy needs"):
        locate(str(directory), spec=spec, needs=("config.json", "*.bin"))


@pytest.mark.usefixtures("no_network")
def test_a_bundled_model_comes_from_the_wheel(spec, directory):
    """A bundled alias is the directory that the plugin gives."""
    assert locate("digits", spec=spec, bundled={"digits": directory}) == directory


def test_a_damaged_bundled_model_says_what_to_reinstall(spec, tmp_path):
    """A bundled model whose files are gone is a damaged installation."""
    with pytest.raises(ModelNotFoundError, match="digits should have come with the plugin of toy"):
        locate("digits", spec=spec, bundled={"digits": tmp_path})


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("ref", ["huge", "", "a/b/c", "acme/../base"])
def test_an_unknown_model_names_the_known_ones(spec, ref):
    """A name that is no alias, repository or directory is answered with the choices."""
    with pytest.raises(ModelNotFoundError) as caught:
        locate(ref, spec=spec)

    assert str(caught.value) == (
        f"toy knows no model called {ref!r}; expected one of base, digits, a repository id "
        "(owner/name) or a directory; get one with: wlk-core pull MODEL --backend toy"
    )


@pytest.mark.parametrize("ref", ["base", "acme/base"])
def test_a_model_that_is_not_here_is_pulled(spec, hub, cache, ref):
    """A model on the hub arrives in the store, with the files the backend names and no other."""
    hub.publish("acme/base", FILES)

    found = locate(ref, spec=spec)

    assert (found / "model.bin").read_bytes() == FILES["model.bin"]
    assert not (found / "README.md").exists()
    assert found == cache / "models" / "acme--base" / ("a" * 40)


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (("whole.bin", "part-1.bin", "part-2.bin"), {"whole.bin"}),
        (("part-1.bin", "part-2.bin"), {"part-1.bin", "part-2.bin"}),
    ],
)
def test_of_alternatives_the_first_that_is_there_is_pulled(spec, hub, cache, there, taken):
    """A repository that holds the weights twice is not fetched twice."""
    hub.publish("acme/base", dict.fromkeys((*there, "config.json"), b"weights"))
    wants = attrs.evolve(spec, model_files=("config.json", "whole.bin|part-*.bin"))

    found = locate("base", spec=wants)

    assert {"config.json", *taken} == {file.name for file in found.iterdir()}


def test_a_pulled_model_needs_no_network_again(spec, hub, no_network_after):
    """A cached model is found without a connection."""
    hub.publish("acme/base", FILES)
    first = locate("base", spec=spec)
    no_network_after()

    assert locate("base", spec=spec) == first


@pytest.fixture
def no_network_after(monkeypatch):
    """Return a function after whose call the network is out of bounds."""

    def cut():
        def refuse(*_arguments, **_options):
            raise AssertionError("the network was touched")

        monkeypatch.setattr(socket.socket, "connect", refuse)

    return cut


def test_a_pull_records_the_revision_and_the_sizes(spec, hub, cache):
    """What was pulled is written down: repository, revision, files and bytes."""
    hub.publish("acme/base", FILES)
    row = pull("base", spec)

    record = json.loads((cache / "pulled" / "toy" / "acme--base.json").read_text())

    assert record == {
        "backend": "toy",
        "repo": "acme/base",
        "revision": "a" * 40,
        "files": {"config.json": 2, "model.bin": 102400},
    }
    assert (row.state, row.revision, row.size) == ("pulled", "a" * 40, 102402)


def test_the_hubs_own_cache_is_left_alone(spec, hub, tmp_path):
    """A pull writes nothing into the cache that other programs share."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert not (tmp_path / "hf").exists()


def hub_snapshot(tmp_path, files):
    """Lay out *files* as the hub's library does in its own cache."""
    folder = tmp_path / "hf" / "models--acme--base"
    snapshot = folder / "snapshots" / ("b" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("b" * 40)
    for name, data in files.items():
        (snapshot / name).write_bytes(data)
    return snapshot


@pytest.mark.usefixtures("no_network")
def test_a_model_in_the_hubs_own_cache_is_used_without_network(spec, tmp_path):
    """What another program fetched is used where it lies."""
    snapshot = hub_snapshot(tmp_path, FILES)

    assert locate("base", spec=spec) == snapshot
    assert [row.state for row in list_models([spec])] == ["hub cache", "bundled"]


def test_a_partial_model_in_the_hubs_own_cache_is_not_enough(spec, tmp_path, hub, cache):
    """A shared cache that holds only some of the needed files is passed over."""
    hub.publish("acme/base", FILES)
    hub_snapshot(tmp_path, {"config.json": b"{}"})

    found = locate("base", spec=spec, needs=("config.json", "model.bin"))

    assert found.is_relative_to(cache)


def test_removing_leaves_the_hubs_own_cache(spec, tmp_path):
    """A model that another program fetched is not ours to remove."""
    snapshot = hub_snapshot(tmp_path, FILES)

    with pytest.raises(ModelNotFoundError, match=r"base was never pulled for toy; .*another prog"):
        remove("base", spec)
    assert snapshot.is_dir()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_offline_an_absent_model_names_the_command(spec, how, monkeypatch):
    """Offline mode never touches the network and says what to run while online."""
    if how == "environment":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(ModelNotFoundError) as caught:
        locate("base", spec=spec, offline=True if how == "argument" else None)

    assert str(caught.value) == (
        "model base is not on this machine and the network is switched off; "
        "get it while online with: wlk-core pull base --backend toy"
    )


def test_another_cache_directory_is_honoured(spec, hub, tmp_path):
    """A cache directory that is given holds the model."""
    hub.publish("acme/base", FILES)

    assert locate("base", spec=spec, cache_dir=tmp_path / "else").is_relative_to(tmp_path / "else")


@pytest.mark.usefixtures("hub")
def test_a_repository_that_does_not_exist_says_so(spec):
    """A name the hub does not know is answered with what to check."""
    with pytest.raises(ModelNotFoundError, match="the hub has no public model called acme/base"):
        pull("base", spec)


def test_a_gated_repository_says_how_to_get_in(spec, hub):
    """A model behind conditions names them and the login."""
    hub.gated.add("acme/base")

    with pytest.raises(ModelNotFoundError, match=r"acme/base is gated: .*hf auth login"):
        pull("base", spec)


def test_a_repository_for_another_backend_says_so(spec, hub):
    """A repository without any file that the backend wants is another backend's model."""
    hub.publish("acme/base", {"weights.npz": b"x"})

    with pytest.raises(ModelNotFoundError, match="acme/base holds none of the files that toy"):
        pull("base", spec)


def test_a_repository_without_a_needed_file_is_no_model(spec, hub):
    """A pulled model that lacks what the backend needs says what is missing."""
    hub.publish("acme/base", {"config.json": b"{}"})

    with pytest.raises(ModelNotFoundError, match=r"acme/base is no model for toy: it holds no m"):
        locate("base", spec=spec, needs=("config.json", "model.bin"))


def test_a_name_that_leads_out_of_the_directory_is_not_fetched(spec, hub, tmp_path):
    """A server cannot place a file beside the model's directory."""
    hub.publish("acme/base", {"config.json": b"{}", "../../evil.bin": b"x"})
    pull("base", spec)

    assert not list(tmp_path.rglob("evil.bin"))


def test_an_unreachable_hub_names_the_command_to_run_again(spec, monkeypatch):
    """No connection is one clear line, in which the command stands."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")

        with pytest.raises(ModelNotFoundError) as caught:
            pull("base", spec)

    assert str(caught.value).startswith("acme/base was not pulled: ")
    assert "then: wlk-core pull base --backend toy" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def interrupted(monkeypatch):
    """Let Ctrl-C arrive when the weights are asked for; call it to undo."""
    fetch = _hub._fetch

    def stop(repo, file, *rest):
        if file.rfilename == "model.bin":
            raise KeyboardInterrupt
        fetch(repo, file, *rest)

    monkeypatch.setattr(_hub, "_fetch", stop)
    return lambda: monkeypatch.setattr(_hub, "_fetch", fetch)


def test_an_interrupted_pull_is_no_model_and_goes_on_where_it_stopped(spec, hub, interrupted):
    """A Ctrl-C between two files leaves nothing usable; the next run fetches only the rest."""
    hub.publish("acme/base", FILES)
    with pytest.raises(KeyboardInterrupt):
        pull("base", spec)

    assert [row.state for row in list_models([spec])] == ["absent", "bundled"]
    with pytest.raises(ModelNotFoundError):
        locate("base", spec=spec, offline=True)

    interrupted()
    hub.requests.clear()
    pull("base", spec)

    assert not [path for _, path in hub.requests if path.endswith("config.json")]
    assert list_models([spec])[0].state == "pulled"


def test_a_file_cut_short_is_no_model_and_is_resumed(spec, hub, monkeypatch):
    """A connection lost inside a file leaves a part; the next run asks for the rest of it."""
    large = bytes(range(256)) * 80_000
    hub.publish("acme/base", {"config.json": b"{}", "model.bin": large})
    hub.cut_after = 12_000_000
    monkeypatch.setattr("time.sleep", lambda _seconds: None)  # the client tries again by itself
    with pytest.raises(ModelNotFoundError, match="acme/base was not pulled: "):
        pull("base", spec)

    assert list_models([spec])[0].state == "absent"

    hub.cut_after, hub.down = None, False
    hub.ranges.clear()
    found = locate("base", spec=spec)

    assert (found / "model.bin").read_bytes() == large
    assert [name for name, _ in hub.ranges] == ["model.bin"]


def test_a_file_that_arrives_damaged_is_not_kept(spec, hub, cache):
    """A file whose checksum differs is thrown away and the model does not count."""
    hub.publish("acme/base", FILES)
    hub.garbled = True

    with pytest.raises(ModelNotFoundError, match=r"acme/base was not pulled: .* arrived damaged"):
        pull("base", spec)
    assert files_below(cache) == []


def test_a_part_that_is_too_long_is_thrown_away(spec, hub, cache):
    """A part larger than the file it belongs to is begun anew."""
    hub.publish("acme/base", FILES)
    directory = cache / "models" / "acme--base" / ("a" * 40)
    directory.mkdir(parents=True)
    (directory / "config.json.part").write_bytes(b"much too long")

    assert (locate("base", spec=spec) / "config.json").read_bytes() == b"{}"


def test_a_full_disk_is_noticed_before_the_download(spec, hub, monkeypatch):
    """A disk without room for the model says how much is needed and what to do."""
    hub.publish("acme/base", FILES)
    usage = _hub.shutil.disk_usage("/")
    monkeypatch.setattr(_hub.shutil, "disk_usage", lambda _path: usage._replace(free=1000))

    with pytest.raises(ModelNotFoundError, match=r"needs 0 MB more.* 0 MB free; make room, or"):
        pull("base", spec)
    assert not [path for _, path in hub.requests if "/resolve/" in path]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.ENOSPC, "the disk of .* is full; make room or point WLK_CACHE_DIR at another disk"),
        (errno.EACCES, "cannot be written; point WLK_CACHE_DIR at a directory of yours"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_fails_during_the_download_says_so(spec, hub, monkeypatch, code, text):
    """A disk that fills up, or cannot be written, is told from a bad connection."""
    hub.publish("acme/base", FILES)

    def fail(*_arguments, **_options):
        raise OSError(code, "as the system says it")

    monkeypatch.setattr(_hub, "_fetch", fail)

    with pytest.raises(ModelNotFoundError, match=text):
        pull("base", spec)
    assert list_models([spec])[0].state == "absent"


def test_a_place_that_cannot_hold_a_store_says_so(spec, hub, tmp_path):
    """A cache directory below a file is told from a bad connection."""
    hub.publish("acme/base", FILES)
    (tmp_path / "file").touch()

    with pytest.raises(ModelNotFoundError, match="cannot be written; point WLK_CACHE_DIR at a dir"):
        pull("base", spec, cache_dir=tmp_path / "file" / "store")


def test_a_newer_revision_replaces_the_older_one(spec, hub, cache):
    """Pulling again brings the newest revision and drops the old files."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)

    row = pull("base", spec)

    assert (row.path / "model.bin").read_bytes() == b"new"
    assert [path.name for path in (cache / "models" / "acme--base").iterdir()] == ["c" * 40]


def test_an_older_revision_stays_usable_until_the_newer_is_complete(spec, hub, monkeypatch):
    """An update that fails leaves the model as it was."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)

    def fail(*_arguments, **_options):
        raise ConnectionError("gone")

    monkeypatch.setattr(_hub, "_fetch", fail)
    with pytest.raises(ModelNotFoundError):
        pull("base", spec)

    assert (locate("base", spec=spec, offline=True) / "model.bin").read_bytes() != b"new"


def test_a_model_with_a_lost_file_does_not_count(spec, hub):
    """A model of which a file is missing or short is pulled again."""
    hub.publish("acme/base", FILES)
    found = locate("base", spec=spec)
    (found / "model.bin").write_bytes(b"short")

    assert list_models([spec])[0].state == "absent"
    assert (locate("base", spec=spec) / "model.bin").read_bytes() == FILES["model.bin"]


@pytest.mark.parametrize("content", ["{", "[]", '{"files": 1}'], ids=["cut", "list", "wrong"])
def test_a_damaged_record_is_no_record(spec, hub, cache, content):
    """A record that cannot be read makes the model absent, not the command fail."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    (cache / "pulled" / "toy" / "acme--base.json").write_text(content)

    assert list_models([spec])[0].state == "absent"


def test_removing_leaves_nothing_behind(spec, hub, cache):
    """Removing a model takes away every file that its pull brought, and says how much."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert remove("base", spec) >= 102402
    assert files_below(cache) == []


@pytest.mark.usefixtures("interrupted")
def test_removing_takes_the_rest_of_an_interrupted_pull_too(spec, hub, cache):
    """What an interrupted pull left is removed like a model."""
    hub.publish("acme/base", FILES)
    with pytest.raises(KeyboardInterrupt):
        pull("base", spec)

    assert remove("base", spec) > 0
    assert files_below(cache) == []


def test_removing_keeps_what_another_backend_pulled(spec, hub):
    """Two backends share the files of a revision; removing one's leaves the other's."""
    hub.publish("acme/base", FILES)
    other = attrs.evolve(spec, name="other", model_files=("config.json", "README.md"))
    pull("base", spec)
    kept = pull("base", other).path

    remove("base", spec)

    assert (kept / "README.md").is_file()
    assert (kept / "config.json").is_file()
    assert not (kept / "model.bin").exists()
    assert list_models([other])[0].state == "pulled"


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("base", "base was never pulled for toy; what was: wlk-core models --backend toy"),
        ("digits", "digits is bundled and was never pulled: nothing can be removed"),
        ("./mine", "./mine is a directory of yours: it was never pulled"),
        ("huge", "toy knows no model called 'huge'"),
    ],
)
def test_only_what_was_pulled_can_be_removed(spec, ref, text):
    """Removing anything else says what it is."""
    with pytest.raises(ModelNotFoundError, match=text):
        remove(ref, spec)


@pytest.mark.usefixtures("no_network")
def test_a_bundled_model_needs_no_pulling(spec):
    """Pulling a bundled model succeeds without doing anything."""
    assert pull("digits", spec).state == "bundled"


def test_a_directory_cannot_be_pulled(spec, directory):
    """Pulling a directory says how it is used instead."""
    with pytest.raises(ModelNotFoundError, match=f"use it with: --model {directory}"):
        pull(str(directory), spec)


def test_models_lists_what_was_pulled_by_repository_id(spec, hub):
    """A model that no alias names is listed by its repository; the default is marked."""
    hub.publish("other/model", FILES)
    pull("other/model", spec)

    rows = list_models([spec])

    assert [(row.name, row.state, row.is_default) for row in rows] == [
        ("base", "absent", True),
        ("digits", "bundled", False),
        ("other/model", "pulled", False),
    ]


def test_no_progress_is_drawn_where_there_is_no_terminal(spec, hub, capfd):
    """A pull in a script prints nothing."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert capfd.readouterr() == ("", "")
