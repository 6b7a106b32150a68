"""What a pull brings, what it leaves when it fails, and the line that explains a failure."""

from __future__ import annotations

import errno
import socket
import threading

import attrs
import huggingface_hub
import msgspec
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import list_models, locate, pull

FILES = {
    "config.json": b"{}",
    "model.bin": bytes(range(256)) * 400,
    "README.md": b"---\nlicense: mit\n---\n",
    "notes.txt": b"not needed",
}


@pytest.fixture
def failure(spec):
    """Return a function that pulls, expects a failure, and returns its line."""

    def of():
        with pytest.raises(ModelNotFoundError) as caught:
            pull("base", spec)
        assert "\n" not in str(caught.value)
        assert list_models([spec])[0].state in {"absent", "incomplete"}
        return str(caught.value)

    return of


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


def test_a_pull_is_recorded_by_revision_names_and_sizes(spec, hub, records, tmp_path):
    """The record has the backend, repository, revision and files, and no path."""
    hub.publish("acme/base", FILES)

    model = pull("base", spec)

    (path,) = records.rglob("*.json")
    assert path == records / "toy" / "acme--base" / f"{'a' * 40}.json"
    assert str(tmp_path) not in path.read_text()
    assert msgspec.json.decode(path.read_bytes()) == {
        "backend": "toy",
        "repo": "acme/base",
        "revision": "a" * 40,
        "files": {"README.md": 21, "config.json": 2, "model.bin": 102400},
        "found": [],
    }
    assert (model.state, model.revision, model.size) == ("pulled", "a" * 40, 102402)
    assert model.licence == "mit"


def test_a_pull_without_a_terminal_prints_nothing(spec, hub, capfd):
    """A pull in a script draws no progress bar."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "as worded")])
def test_the_next_pull_fetches_the_rest_of_an_interrupted_one(
    spec, hub, monkeypatch, error, locate_offline
):
    """A Ctrl-C or a full disk between two files leaves no model, and what is complete is kept."""
    hub.publish("acme/base", FILES)
    library = huggingface_hub.file_download
    fetch, complete, are_complete = library.http_get, set(), threading.Event()

    def stop(url, *arguments, **options):  # called in a thread for each file
        name = url.rpartition("/")[2]
        if name == "model.bin":
            assert are_complete.wait(60)
            raise error
        fetch(url, *arguments, **options)
        complete.add(name)
        if complete == {"config.json", "README.md"}:
            are_complete.set()

    monkeypatch.setattr(library, "http_get", stop)
    with pytest.raises((KeyboardInterrupt, ModelNotFoundError)) as caught:
        pull("base", spec)
    assert caught.type is KeyboardInterrupt or "hub is full; make room or" in str(caught.value)
    assert [row.state for row in list_models([spec])] == ["incomplete", "bundled"]
    with pytest.raises(ModelNotFoundError, match="base is not complete in the cache and the netwo"):
        locate_offline("base", spec=spec)

    monkeypatch.setattr(library, "http_get", fetch)
    hub.requests.clear()
    pull("base", spec)

    assert hub.fetched() == ["model.bin"]
    assert list_models([spec])[0].state == "pulled"


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


def test_an_older_revision_stays_usable_until_the_newer_is_complete(spec, hub, locate_offline):
    """An update that fails leaves the model as it was; one that succeeds is used."""
    hub.publish("acme/base", FILES)
    old = pull("base", spec)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)
    hub.file_answer = (403, {}, b"")
    with pytest.raises(ModelNotFoundError):
        pull("base", spec)

    assert old.path == locate_offline("base", spec=spec)

    hub.file_answer = None
    new = pull("base", spec)

    assert (new.path / "model.bin").read_bytes() == b"new"
    assert new.path == locate_offline("base", spec=spec)


def test_a_damaged_record_is_no_record(spec, hub, records):
    """A model whose record cannot be read is one of another tool; no command fails."""
    hub.publish("acme/base", FILES)
    pull("base", spec)
    (path,) = records.rglob("*.json")
    path.write_text('{"backend": "toy", "repo"')

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


@pytest.mark.usefixtures("hub")
def test_a_repository_that_does_not_exist_is_named(failure):
    """A name the hub does not know is answered with what to check."""
    assert failure() == (
        "acme/base was not pulled: the hub has no public model of that name; check the name, or "
        "for a private one: hf auth login && wlk-core pull base --backend toy"
    )


def test_the_error_about_a_gated_repository_names_the_login(failure, hub):
    """A model under conditions names them and the login."""
    hub.publish("acme/base", FILES)
    hub.gated.add("acme/base")

    assert failure().startswith(
        "acme/base was not pulled: it is gated; accept its conditions on its page, then: hf auth"
    )


@pytest.mark.parametrize("is_listed", [False, True], ids=["model", "file"])
@pytest.mark.parametrize(("status", "remedy"), [(403, "hf auth login && "), (404, "try again la")])
def test_a_refusal_of_the_hub_has_its_line(failure, hub, status, remedy, is_listed):
    """The hub may refuse a file after it listed the model."""
    hub.publish("acme/base", FILES)
    setattr(hub, "file_answer" if is_listed else "answer", (status, {}, b"<html>"))
    text = failure()

    assert f"the hub refuses the request ({status}); {remedy}" in text
    assert text.endswith("wlk-core pull base --backend toy")


@pytest.mark.parametrize("body", [b"<html>Log in to this network</html>", b""])
def test_the_login_page_of_a_network_is_one_line(failure, hub, body):
    """A page is no answer of a hub."""
    hub.answer = (200, {"Content-Type": "text/html"}, body)

    assert failure().startswith("acme/base was not pulled: ")


def test_a_repository_for_another_backend_is_named(failure, hub):
    """A repository without any file that the backend loads is another backend's model."""
    hub.publish("acme/base", {"weights.npz": b"x"})

    assert failure().startswith("acme/base holds none of the files that toy needs (config.json, *")


def test_an_unreachable_hub_names_the_command_to_run_again(failure, monkeypatch):
    """No connection is one clear line with the command in it, and without the password."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://anna:s3cr3t@127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)

        text = failure()

    assert text.startswith("acme/base was not pulled: ")
    assert "then: wlk-core pull base --backend toy" in text
    assert "s3cr3t" not in text


def test_a_path_that_cannot_hold_a_cache_is_named(spec, hub, tmp_path, monkeypatch):
    """A cache directory below a file is not a bad connection."""
    hub.publish("acme/base", FILES)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file" / "cache"))

    with pytest.raises(
        ModelNotFoundError, match="cannot be written; make room or set HF_HUB_CACHE"
    ):
        pull("base", spec)
