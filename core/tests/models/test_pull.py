"""What a pull brings, and what it leaves when it fails or is interrupted."""

from __future__ import annotations

from contextlib import suppress
import json
import os

import attrs
import huggingface_hub
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import download, list_models, locate, pull

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400, "README.md": b"not needed"}


def files_below(folder):
    """Return every file below a folder, by relative name."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    ("there", "selected"),
    [
        (("whole.bin", "part-1.bin", "part-2.bin"), {"whole.bin"}),
        (("part-1.bin", "part-2.bin"), {"part-1.bin", "part-2.bin"}),
    ],
)
def test_of_alternatives_the_first_that_exists_is_pulled(spec, hub, there, selected):
    """A repository that holds the weights twice is not fetched twice."""
    hub.publish("acme/base", dict.fromkeys((*there, "config.json"), b"weights"))
    spec = attrs.evolve(spec, model_files=("config.json", "whole.bin|part-*.bin"))

    found = locate("base", spec=spec)

    assert {"config.json", *selected} == {file.name for file in found.iterdir()}


def test_a_pull_is_recorded_by_names_and_sizes(spec, hub, records, tmp_path):
    """The record has the backend, repository, revision and files, and no path."""
    hub.publish("acme/base", FILES)

    model = pull("base", spec)

    (path,) = records.rglob("*.json")
    assert path == records / "toy" / "acme--base" / f"{'a' * 40}.json"
    assert str(tmp_path) not in path.read_text()
    assert json.loads(path.read_text()) == {
        "backend": "toy",
        "repo": "acme/base",
        "revision": "a" * 40,
        "files": {"config.json": 2, "model.bin": 102400},
        "found": [],
    }
    assert (model.state, model.revision, model.size) == ("pulled", "a" * 40, 102402)


def test_files_that_another_tool_fetched_are_recorded_as_such(spec, hub, lay_out, records):
    """A pull of what is partly there fetches the rest and remembers what it found."""
    hub.publish("acme/base", FILES)
    lay_out({"config.json": b"{}"}, revision="a" * 40)

    pull("base", spec)

    (path,) = records.rglob("*.json")
    assert json.loads(path.read_text())["found"] == ["config.json"]
    assert hub.fetched() == ["model.bin"]


def test_a_hub_without_sizes_gives_a_whole_model(spec, hub):
    """Sizes and checksums may be absent from a mirror's answer: the files still arrive whole."""
    hub.publish("acme/base", FILES)
    hub.has_sizes = False

    model = pull("base", spec)

    assert (model.state, model.size) == ("pulled", 102402)
    assert (model.path / "model.bin").read_bytes() == FILES["model.bin"]


def test_a_pull_without_a_terminal_prints_nothing(spec, hub, capfd):
    """A pull in a script draws no progress bar."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert capfd.readouterr() == ("", "")


@pytest.fixture
def interrupted(monkeypatch):
    """Let Ctrl-C arrive when the weights are fetched; call it to undo."""
    fetch = huggingface_hub.hf_hub_download

    def stop(repo, name, **options):
        if name == "model.bin":
            raise KeyboardInterrupt
        return fetch(repo, name, **options)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", stop)
    return lambda: monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)


def test_an_interrupted_pull_is_no_model_and_the_next_fetches_the_rest(spec, hub, interrupted):
    """A Ctrl-C between two files leaves nothing usable; the next run fetches only the rest."""
    hub.publish("acme/base", FILES)
    with pytest.raises(KeyboardInterrupt):
        pull("base", spec)

    assert [row.state for row in list_models([spec])] == ["incomplete", "bundled"]
    with pytest.raises(ModelNotFoundError):
        locate("base", spec=spec, offline=True)

    interrupted()
    hub.requests.clear()
    pull("base", spec)

    assert hub.fetched() == ["model.bin"]
    assert list_models([spec])[0].state == "pulled"


def test_what_a_killed_pull_left_is_removed_by_the_next(spec, hub, cache):
    """An unfinished file to which no process has written for an hour is garbage."""
    hub.publish("acme/base", FILES)
    blobs = cache / "models--acme--base" / "blobs"
    blobs.mkdir(parents=True)
    for name in ("old.1.incomplete", "new.1.incomplete"):
        (blobs / name).touch()
    os.utime(blobs / "old.1.incomplete", (0, 0))

    pull("base", spec)

    assert [path.name for path in blobs.glob("*.incomplete")] == ["new.1.incomplete"]


@pytest.mark.slow
def test_a_connection_lost_inside_a_file_is_taken_up(spec, hub, monkeypatch):
    """The hub's library asks for the rest of a file after a lost connection."""
    large = bytes(range(256)) * 80_000
    hub.publish("acme/base", {"config.json": b"{}", "model.bin": large})
    hub.cut_once = 12_000_000
    monkeypatch.setattr("time.sleep", lambda _seconds: None)  # the client waits before it retries

    with suppress(ModelNotFoundError):  # older releases of the library take it up in the next run
        pull("base", spec)

    found = locate("base", spec=spec)

    assert (found / "model.bin").read_bytes() == large
    assert [name for name, _ in hub.ranges] == ["model.bin"]


@pytest.mark.slow
def test_a_file_cut_short_is_no_model(spec, hub, monkeypatch):
    """A connection that stays lost leaves no model; the next run completes it."""
    large = bytes(range(256)) * 80_000
    hub.publish("acme/base", {"config.json": b"{}", "model.bin": large})
    hub.cut_after = 12_000_000
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with pytest.raises(ModelNotFoundError, match="acme/base was not pulled: "):
        pull("base", spec)

    assert list_models([spec])[0].state == "incomplete"

    hub.cut_after, hub.down = None, False
    found = locate("base", spec=spec)

    assert (found / "model.bin").read_bytes() == large


@pytest.mark.parametrize("name", ["model.bin", "config.json"])
def test_a_file_that_arrives_damaged_is_not_kept(spec, hub, cache, name):
    """A file whose checksum differs is discarded, in large-file storage or not."""
    hub.publish("acme/base", {name: b"sound and whole"})
    hub.garbled = True

    with pytest.raises(ModelNotFoundError, match=r"acme/base was not pulled: .* arrived damaged"):
        pull("base", spec)
    assert files_below(cache / "models--acme--base") == []
    assert list_models([spec])[0].state == "incomplete"


@pytest.mark.parametrize("damage", [b"short", FILES["model.bin"][::-1]], ids=["short", "same size"])
def test_pulling_again_repairs_a_damaged_file(spec, hub, damage):
    """A pull checks the files that are there, and fetches those that differ."""
    hub.publish("acme/base", FILES)
    path = pull("base", spec).path / "model.bin"
    path.write_bytes(damage)
    hub.requests.clear()

    pull("base", spec)

    assert path.read_bytes() == FILES["model.bin"]
    assert hub.fetched() == ["model.bin"]


def test_a_model_with_a_lost_file_does_not_count(spec, hub):
    """A model of which a file is missing or short is pulled again."""
    hub.publish("acme/base", FILES)
    found = locate("base", spec=spec)
    (found / "model.bin").write_bytes(b"short")

    assert list_models([spec])[0].state == "incomplete"
    assert (locate("base", spec=spec) / "model.bin").read_bytes() == FILES["model.bin"]


def test_a_newer_revision_replaces_the_older_one(spec, hub, cache, records):
    """Pulling again brings the newest revision and drops the files of the old one."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)

    model = pull("base", spec)

    repo = cache / "models--acme--base"
    assert (model.path / "model.bin").read_bytes() == b"new"
    assert (model.path / "config.json").read_bytes() == b"{}"
    assert [path.name for path in (repo / "snapshots").iterdir()] == ["c" * 40]
    assert len(files_below(repo / "blobs")) == 2
    assert [path.stem for path in records.rglob("*.json")] == ["c" * 40]


def test_an_older_revision_that_another_tool_named_stays(spec, hub, cache):
    """A revision to which a tag points is not removed by an update."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    (cache / "models--acme--base" / "refs" / "v1").write_text("a" * 40)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)

    pull("base", spec)

    old = cache / "models--acme--base" / "snapshots" / ("a" * 40)
    assert (old / "model.bin").read_bytes() == FILES["model.bin"]


@pytest.mark.usefixtures("interrupted")
def test_an_older_revision_stays_usable_until_the_newer_is_complete(spec, hub, interrupted):
    """An update that fails leaves the model as it was, for other tools too."""
    interrupted()
    hub.publish("acme/base", FILES)
    old = pull("base", spec)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)
    hub.file_answer = (500, {}, b"")

    with pytest.raises(ModelNotFoundError):
        pull("base", spec)

    assert old.path == locate("base", spec=spec, offline=True)
    assert (old.path.parents[1] / "refs" / "main").read_text() == "a" * 40


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"files": 1}',
        '{"backend": "toy", "repo": "acme/base", "revision": "x", "files": {"a": 1}, "found": []}',
    ],
    ids=["cut", "list", "wrong", "no commit"],
)
def test_a_damaged_record_is_no_record(spec, hub, records, content):
    """A model whose record cannot be read is one of another tool; no command fails."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    (path,) = records.rglob("*.json")
    path.write_text(content)

    assert list_models([spec])[0].state == "cached"


@pytest.mark.usefixtures("no_network")
def test_a_bundled_model_needs_no_pulling(spec):
    """Pulling a bundled model succeeds without doing anything."""
    assert pull("digits", spec).state == "bundled"


def test_a_directory_cannot_be_pulled(spec, tmp_path):
    """Pulling a directory names how it is used instead."""
    with pytest.raises(ModelNotFoundError, match=f"use it with: --model {tmp_path}"):
        pull(str(tmp_path), spec)


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


def test_a_full_disk_is_noticed_before_the_download(spec, hub, monkeypatch):
    """A disk without room for the model names how much is needed and what to do."""
    hub.publish("acme/base", FILES)
    usage = download.shutil.disk_usage("/")
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _path: usage._replace(free=1000))

    with pytest.raises(ModelNotFoundError, match=r"needs 0\.1 MB more.* 0\.0 MB free; make room,"):
        pull("base", spec)
    assert hub.fetched() == []
