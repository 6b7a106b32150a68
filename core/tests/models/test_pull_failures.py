"""A hub, a network or a disk that fails: each failure is one clear line."""

from __future__ import annotations

import errno
import socket

import huggingface_hub
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import list_models, pull

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400}
HTML = (200, {"Content-Type": "text/html"}, b"<html>Log in to this network</html>")


def failure_of(spec, ref="base"):
    """Return the message of a pull that fails; it is one line and leaves no model."""
    with pytest.raises(ModelNotFoundError) as caught:
        pull(ref, spec)

    text = str(caught.value)
    assert "\n" not in text
    assert "defect" not in text
    assert list_models([spec])[0].state in {"absent", "incomplete"}
    return text


@pytest.mark.usefixtures("hub")
def test_a_repository_that_does_not_exist_is_named(spec):
    """A name the hub does not know is answered with what to check."""
    assert failure_of(spec) == (
        "acme/base was not pulled: the hub has no public model of that name; check the name, or "
        "for a private one: hf auth login && wlk-core pull base --backend toy"
    )


def test_the_error_about_a_gated_repository_names_the_login(spec, hub):
    """A model under conditions names them and the login."""
    hub.publish("acme/base", FILES)
    hub.gated.add("acme/base")

    assert failure_of(spec).startswith(
        "acme/base was not pulled: it is gated; accept its conditions on its page, then: hf auth"
    )


@pytest.mark.parametrize(
    ("status", "headers", "text"),
    [
        (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, "token (401)"),
        (
            403,
            {},
            "the hub refuses access (403); use a token that may read it, with: hf auth login",
        ),
        (404, {}, "the hub does not find it (404); check its name and HF_ENDPOINT, then: wlk-co"),
        (429, {}, "the hub limits requests (429): wait; then: wlk-core pull base --backend toy"),
        (429, {"Retry-After": "77"}, "the hub limits requests (429): wait for 77 s; then: "),
        (429, {"Retry-After": "\u0661"}, "(429): wait; then: "),
        (500, {}, "the hub fails (500); try again later with: wlk-core pull base --backend toy"),
        (504, {}, "the hub fails (504); try again later"),
    ],
)
def test_each_status_of_the_hub_has_its_line(spec, hub, status, headers, text):
    """What the hub refuses is named with what helps."""
    headers = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    hub.answer = (status, headers, b"<html>")

    assert text in failure_of(spec)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (
            "",
            "the hub wants a token (401); check the name, or: hf auth login && wlk-core",
        ),
        (
            "hf_x",
            "the hub does not accept the token (401); get another one with: hf auth login && ",
        ),
    ],
    ids=["none", "wrong"],
)
def test_a_token_that_is_missing_is_not_called_wrong(spec, hub, monkeypatch, token, text):
    """A mirror may want a token, or refuse the one it got."""
    monkeypatch.setenv("HF_TOKEN", token)
    hub.answer = (401, {}, b"")

    assert text in failure_of(spec)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
def test_a_refusal_of_one_file_has_its_line(spec, hub, monkeypatch, status):
    """The hub may refuse a file after it listed the model."""
    hub.publish("acme/base", FILES)
    hub.file_answer = (status, {}, b"")
    monkeypatch.setattr("time.sleep", lambda _seconds: None)

    assert f"({status})" in failure_of(spec)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Log in</html>",
        b"[]",
        b"{}",
        b'"text"',
        b"null",
        b"",
        b'{"id": "acme/base", "siblings": [7]}',
        b'{"id": "acme/base", "siblings": {"a": 1}}',
        b'{"id": "acme/base", "siblings": [{"size": 1}]}',
        b'{"id": "acme/base", "siblings": [{"rfilename": "config.json", "lfs": "x"}]}',
        b'{"id": "acme/base", "siblings": 3, "lastModified": "yesterday"}',
    ],
    ids=["page", "list", "empty", "text", "null", "nothing", "numbers", "table", "nameless", "lfs",
         "date"],
)  # fmt: skip
def test_an_answer_of_something_else_than_a_hub_is_one_line(spec, hub, body):
    """The login page of a network, or junk, is no hub."""
    hub.answer = (200, {"Content-Type": "application/json"}, body)

    text = failure_of(spec)

    assert text.startswith("127.0.0.1 does not answer like a model hub: ")
    assert "HF_ENDPOINT" in text


@pytest.mark.parametrize(
    "revision",
    ["/etc", "../../../../evil", "a" * 39, "A" * 40, "a" * 40 + "\n", "", None, 7, ["a"], "main"],
    ids=repr,
)
def test_a_revision_that_is_no_commit_is_refused(spec, hub, tmp_path, revision):
    """A revision is data of the hub and becomes a directory name: only a commit hash does."""
    hub.publish("acme/base", FILES, revision=revision)
    before = sorted(tmp_path.rglob("*"))

    text = failure_of(spec)

    assert "its revision of acme/base is no commit" in text
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "name", ["../../evil.bin", "/evil.bin", "..\\evil.bin", "C:/evil.bin", "a/../../evil.bin"]
)
def test_a_file_name_that_leads_out_of_the_snapshot_is_not_fetched(spec, hub, tmp_path, name):
    """A server cannot name a file beside the model's directory."""
    name = name.replace("/root", str(tmp_path))
    hub.publish("acme/base", {"config.json": b"{}", name: b"x"})
    pull("base", spec)

    assert not list(tmp_path.rglob("*evil.bin"))
    assert hub.fetched() == ["config.json"]


@pytest.mark.parametrize("etag", ["/evil", "../../../evil", "..", ".", "a/b", ""], ids=repr)
def test_an_entity_tag_that_is_a_path_is_refused(spec, hub, tmp_path, etag):
    """The hub's library uses the tag as a file name: only a plain one is let through."""
    hub.publish("acme/base", FILES)
    hub.etag = etag.replace("/root", str(tmp_path)) or '""'

    text = failure_of(spec)

    assert "its entity tag of config.json is no name" in text
    assert not list(tmp_path.rglob("evil*"))


def test_a_size_of_another_type_is_no_size(spec, hub):
    """A size is data of the hub too."""
    hub.publish("acme/base", FILES)
    siblings = '[{"rfilename": "config.json", "size": "2"}, {"rfilename": "model.bin", "size": -1}]'
    body = f'{{"id": "acme/base", "sha": "{"a" * 40}", "siblings": {siblings}}}'
    hub.answer = (200, {"Content-Type": "application/json"}, body.encode())

    assert pull("base", spec).size == 102402


def test_a_repository_for_another_backend_is_named(spec, hub):
    """A repository without any file that the backend loads is another backend's model."""
    hub.publish("acme/base", {"weights.npz": b"x"})

    assert failure_of(spec).startswith("acme/base holds none of the files that toy needs (config.j")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/", "/resolve/"])
def test_a_server_that_never_answers_has_a_time_limit(spec, hub, monkeypatch, path):
    """A connection that is accepted and never answered ends, with the command to run again."""
    hub.publish("acme/base", FILES)
    hub.stalls = (path,)
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "0.3")

    assert failure_of(spec) == (
        "acme/base was not pulled: the hub did not answer in time; check the connection, then: "
        "wlk-core pull base --backend toy (files that are complete are kept and not fetched again)"
    )


@pytest.mark.parametrize("value", ["x", "-1", "nan", "1e9"])
def test_a_time_limit_that_is_no_number_is_the_default(spec, hub, monkeypatch, value):
    """A mistake in the variable stops no pull."""
    hub.publish("acme/base", FILES)
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", value)

    assert pull("base", spec).state == "pulled"


def test_an_unreachable_hub_names_the_command_to_run_again(spec, monkeypatch):
    """No connection is one clear line with the command in it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")

        text = failure_of(spec)

    assert text.startswith("acme/base was not pulled: ")
    assert "then: wlk-core pull base --backend toy" in text


@pytest.mark.parametrize("address", ["hub.example", "ftp://hub.example", "http://", "http://h:x"])
def test_an_endpoint_that_is_no_address_is_named(spec, monkeypatch, address):
    """HF_ENDPOINT is checked before it is used."""
    monkeypatch.setenv("HF_ENDPOINT", address)

    assert failure_of(spec).startswith("HF_ENDPOINT is no address of a model hub; expected https:")


@pytest.mark.parametrize("kind", ["unreachable", "page", "revision", "port"])
def test_no_password_of_the_endpoint_is_printed(spec, hub, monkeypatch, kind, caplog):
    """The words user:password@ of HF_ENDPOINT stay out of messages."""
    hub.publish("acme/base", FILES, revision="x" if kind == "revision" else "a" * 40)
    hub.answer = HTML if kind == "page" else None
    address = hub.url.replace("//", "//anna:s3cr3t@")
    if kind == "unreachable":
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"http://anna:s3cr3t@127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("HF_ENDPOINT", address + ("x" if kind == "port" else ""))

    text = failure_of(spec)

    assert "s3cr3t" not in text
    assert "anna" not in text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.ENOSPC, "is full; make room or set HF_HUB_CACHE to a directory on another disk, th"),
        (errno.EACCES, "cannot be written; set HF_HUB_CACHE to a directory of yours, then: wlk-c"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_fails_during_the_download_is_named(spec, hub, monkeypatch, code, text):
    """A disk that fills up, or cannot be written, is not reported as a bad connection."""
    hub.publish("acme/base", FILES)

    def fail(*_arguments, **_options):
        raise OSError(code, "as the system words it")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)

    assert text in failure_of(spec)


def test_a_path_that_cannot_hold_a_cache_is_named(spec, hub, tmp_path):
    """A cache directory below a file is not a bad connection."""
    hub.publish("acme/base", FILES)
    (tmp_path / "file").touch()

    with pytest.raises(ModelNotFoundError, match="cannot be written; set HF_HUB_CACHE to a dir"):
        pull("base", spec, cache_dir=tmp_path / "file" / "cache")


def test_a_record_that_cannot_be_written_is_named(spec, hub, tmp_path, monkeypatch):
    """The folder of the records may be unwritable too."""
    hub.publish("acme/base", FILES)
    (tmp_path / "file").touch()
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "file"))

    assert "cannot be written" in failure_of(spec)


def test_an_answer_for_another_commit_is_refused(spec, hub):
    """A file of another revision than the one that was listed is not taken."""
    hub.publish("acme/base", FILES)
    headers = {"ETag": '"abc"', "X-Repo-Commit": "b" * 40}
    hub.file_answer = (200, headers, b"{}")

    assert f"config.json comes from another commit than {'a' * 40}" in failure_of(spec)
