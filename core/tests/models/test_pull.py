"""What a pull downloads, what it leaves when it fails, and which models can be removed."""

from __future__ import annotations

import socket

import attrs
from huggingface_hub import constants, utils
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import cached_repo, list_models, locate, pull

FILES = {
    "config.json": b"{}",
    "model.bin": bytes(range(256)) * 400,
    "README.md": b"---\nlicense: mit\n---\n",
    "notes.txt": b"not needed",
}


@pytest.fixture
def failure(spec):
    """Return a function that pulls, expects a failure, and returns its message."""

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
    """If a repository contains the weights twice, they are downloaded once."""
    hub.publish("acme/base", dict.fromkeys((*there, "config.json"), b"weights"))
    spec = attrs.evolve(spec, model_files=("config.json", "whole.bin|part-*.bin"))

    found = locate("base", spec=spec)

    assert {file.name for file in found.iterdir()} == {"config.json", *selected}


def test_a_pull_without_a_terminal_prints_nothing(spec, hub, capfd):
    """A pull in a script draws no progress bar."""
    hub.publish("acme/base", FILES)
    pull("base", spec)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("damage", [b"short", FILES["model.bin"][::-1]], ids=["short", "same size"])
def test_pulling_again_repairs_a_damaged_file(spec, hub, damage):
    """A pull checks the files in the cache, and downloads those that differ."""
    hub.publish("acme/base", FILES)
    path = pull("base", spec).path / "model.bin"
    path.write_bytes(damage)
    hub.sent.clear()

    pull("base", spec)

    assert path.read_bytes() == FILES["model.bin"]
    assert hub.sent == ["model.bin"]


def test_an_older_revision_stays_usable_until_the_newer_is_complete(spec, hub, locate_offline):
    """A failed update leaves the model as it was; a successful one is used."""
    hub.publish("acme/base", FILES)
    old = pull("base", spec)
    hub.publish("acme/base", {**FILES, "model.bin": b"new"}, revision="c" * 40)
    hub.file_answer = (403, {}, b"")
    with pytest.raises(ModelNotFoundError):
        pull("base", spec)

    assert locate_offline("base", spec=spec) == old.path

    hub.file_answer = None
    new = pull("base", spec)

    assert (new.path / "model.bin").read_bytes() == b"new"
    assert locate_offline("base", spec=spec) == new.path


def test_a_directory_cannot_be_pulled(spec, tmp_path):
    """The error says how to use the directory instead."""
    with pytest.raises(ModelNotFoundError, match=f"use it with: --model {tmp_path}"):
        pull(str(tmp_path), spec)


@pytest.mark.parametrize("status", [404, 403, 200])
@pytest.mark.parametrize("of", ["answer", "file_answer"])
def test_a_refusal_of_the_hub_is_one_line_with_what_helps(failure, hub, status, of):
    """The hub, or a network's login page, may refuse a model, or a file after the list of files."""
    hub.publish("acme/base", FILES)
    setattr(hub, of, (status, {"Content-Type": "text/html"}, b"<html>Log in</html>"))
    text = failure()

    assert text.startswith("acme/base was not pulled: ")
    assert status == 200 or str(status) in text
    assert text.endswith("private model: hf auth login; then: wlk-core pull base --backend toy")


def test_a_repository_for_another_backend_is_named(failure, hub):
    """A repository without any file that the backend loads belongs to another backend."""
    hub.publish("acme/base", {"weights.npz": b"x"})

    assert failure().startswith("acme/base holds none of the files that toy needs (config.json, *")


def test_an_unreachable_hub_names_the_command_to_run_again(failure, monkeypatch):
    """Without a connection the error is one line with the command and without the password."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://anna:s3cr3t@127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)

        text = failure()

    assert text.startswith("acme/base was not pulled: ")
    assert "then: wlk-core pull base --backend toy" in text
    assert "s3cr3t" not in text


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("base", "base is not in the cache; list what is with: wlk-core models --backend toy"),
        ("digits", "digits is bundled and was never pulled: nothing can be removed"),
        ("./mine", "./mine is local and was never pulled: nothing can be removed"),
        ("huge", "toy has no model called 'huge'"),
    ],
)
def test_only_a_model_in_the_cache_can_be_removed(spec, ref, text):
    """The error for any other model says where it is."""
    with pytest.raises(ModelNotFoundError, match=text):
        cached_repo(ref, spec)


def test_a_pull_leaves_the_settings_of_the_hub_client_as_they_were(spec, hub, monkeypatch):
    """Telemetry and progress bars are off while it runs, and on for the program afterwards."""
    hub.publish("acme/base", FILES)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    utils.enable_progress_bars()

    pull("base", spec)

    assert constants.HF_HUB_DISABLE_TELEMETRY is False
    assert not utils.are_progress_bars_disabled()
