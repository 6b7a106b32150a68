"""A hub that stalls, floods, contradicts itself or answers anything: a sound model or one line."""

from __future__ import annotations

import hashlib
import json
import logging
import time

from huggingface_hub import constants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import describe_model, pull
from wlk_core.models.hub_requests import Hub


def blob_id(data):
    """Return git's name for a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 -- git's choice


FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 400}


@pytest.fixture
def impatient(monkeypatch):
    """Wait a fifth of a second for a piece of a file."""
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)


def message_of(spec):
    """Return the line of a pull that fails, in a time that is a bound for all of these."""
    start = time.monotonic()
    with pytest.raises(ModelNotFoundError) as caught:
        pull("base", spec)

    assert time.monotonic() - start < 10
    text = str(caught.value)
    assert text.isprintable()
    assert describe_model("base", spec).state != "pulled"
    return text


def start_answer(handler, headers, length=None):
    """Send the head of an answer about a file."""
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name, value)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()


def drop_by_drop(handler, _name, headers):
    """Announce the file, and send a byte now and then."""
    start_answer(handler, headers, 102_400)
    while not handler.server.hub.stalled.wait(0.02):
        handler.wfile.write(b"x")


def without_end(handler, _name, headers):
    """Announce no length, and never stop."""
    handler.protocol_version = "HTTP/1.0"
    start_answer(handler, headers)
    while not handler.server.hub.stalled.is_set():
        handler.wfile.write(b"x" * 100_000)


def refusal_without_end(handler, _name, _headers):
    """Refuse with a page that never stops."""
    handler.send_response(500)
    handler.end_headers()
    while not handler.server.hub.stalled.is_set():
        handler.wfile.write(b"x" * 100_000)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_file_that_arrives_drop_by_drop_is_given_up(spec, hub):
    """A byte now and then is no progress, though each read ends in time."""
    hub.publish("acme/base", {"model.bin": FILES["model.bin"]})
    hub.file_stream = drop_by_drop

    assert "acme/base was not pulled: the hub did not answer in time; " in message_of(spec)


@pytest.mark.slow
def test_a_file_without_end_stops_at_its_size(spec, hub, cache):
    """Not more is written than the hub announced."""
    hub.publish("acme/base", FILES)
    hub.file_stream = without_end

    assert "its answer is longer than 2 bytes" in message_of(spec)
    assert [part for part in cache.rglob("*.incomplete") if part.stat().st_size > 2] == []


def test_the_content_of_a_refusal_is_not_read(spec, hub):
    """A page without end beside a status cannot fill memory."""
    hub.publish("acme/base", FILES)
    hub.file_stream = refusal_without_end

    assert "the hub fails (500); try again later" in message_of(spec)


def test_a_hub_that_wants_a_day_of_waiting_is_not_waited_for(spec, hub):
    """The hub's library would sleep as long as Retry-After demands."""
    hub.publish("acme/base", FILES)
    hub.file_stream = lambda handler, *_: handler.reply(429, {"Retry-After": "86400"}, b"")

    assert "the hub limits requests (429): wait for 86400 s; then: " in message_of(spec)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "Wed, 21 Oct 2037 07:28:00 GMT"}, "wait until 2037-10-21 07:28 UTC; then"),
        ({"RateLimit": '"api";r=0;t=55'}, "wait for 55 s; then"),
        ({"Retry-After": "soon"}, "wait; then"),
    ],
    ids=["date", "draft", "junk"],
)
def test_the_end_of_a_limit_is_named(spec, hub, headers, wait):
    """A limit may end at a time, or be written in the header of a draft standard."""
    hub.answer = (429, headers, b"")

    assert wait in message_of(spec)


@pytest.mark.parametrize("body", [b"[]", b"7", b'{"error": 1, "errors": 3}'])
@pytest.mark.parametrize("status", [401, 418, 500])
def test_a_refusal_in_any_form_has_its_line(spec, hub, status, body):
    """The hub's library expects a table in the content of a refusal."""
    hub.answer = (status, {"Content-Type": "application/json"}, body)

    assert f"({status})" in message_of(spec)


def test_a_warning_of_the_hub_reaches_no_terminal(spec, hub, capfd, caplog):
    """A hub may send warnings; the library would log them, control characters included."""
    hub.publish("acme/base", FILES)
    reply = {"sha": "a" * 40, "siblings": [{"rfilename": name} for name in FILES]}
    hub.answer = (200, {"X-HF-Warning": "topic; \x1b[31mred"}, json.dumps(reply).encode())
    caplog.set_level(logging.WARNING)

    assert pull("base", spec).state == "pulled"
    assert ("", "") == capfd.readouterr()
    assert caplog.messages == []


def test_the_password_of_the_endpoint_is_in_no_address(spec, hub, monkeypatch):
    """It is sent as a header, so no error and no log of an address can hold it."""
    hub.publish("acme/base", FILES)
    monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("//", "//anna:s3cr3t%2F@"))

    pull("base", spec)

    assert Hub.chosen().endpoint == hub.url
    assert "YW5u" not in repr(Hub.chosen())
    assert hub.accounts == {"Basic YW5uYTpzM2NyM3Qv"}  # anna:s3cr3t/


def test_two_sizes_of_a_file_are_refused(spec, hub):
    """The listing and the answer about a file must agree before it is fetched."""
    hub.publish("acme/base", FILES)
    reply = {"sha": "a" * 40, "siblings": [{"rfilename": "config.json", "size": 3}]}
    hub.answer = (200, {}, json.dumps(reply).encode())

    assert "it gives two sizes of config.json: 3 and 2 bytes" in message_of(spec)
    assert hub.fetched() == []


@pytest.mark.parametrize("name", ["config.json", "model.bin"])
def test_a_mirror_without_a_listing_of_checksums_is_checked_by_its_tags(spec, hub, name):
    """An entity tag that is written like a checksum is compared with the content."""
    hub.publish("acme/base", {name: b"sound and whole"})
    hub.has_sizes = False
    hub.garbled = True

    assert f"{name} arrived damaged" in message_of(spec)


def test_an_answer_of_another_day_stops_no_pull(spec, hub, tmp_path, monkeypatch):
    """The hub's library keeps a list from the hub, and fails where that list has another form."""
    if not hasattr(constants, "AGENT_HARNESSES_PATH"):
        pytest.skip("this release of the hub's library keeps no list")
    (tmp_path / "harnesses.json").write_text("[1]")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(tmp_path / "harnesses.json"))
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", None)
    hub.publish("acme/base", FILES)

    pull("base", spec)

    assert {path.split("/")[1] for _, path in hub.requests} <= {"api", "acme"}
    assert {path for _, path in hub.requests if "harness" in path} == set()


def test_one_tag_for_two_files_is_refused(spec, hub, cache):
    """The tag is the name of the content in the cache, so one file would replace the other."""
    hub.publish("acme/base", FILES)
    hub.has_sizes = False
    hub.etag = "same"

    for _ in range(2):
        assert "it gives config.json and model.bin one entity tag" in message_of(spec)
    assert [b"{}"] == [path.read_bytes() for path in cache.rglob("config.json")]


ENTRIES = st.fixed_dictionaries(
    {
        "rfilename": st.just("config.json"),
        "size": st.none() | st.integers(-1, 4) | st.just("2"),
        "blobId": st.none() | st.sampled_from(["", "b" * 40, blob_id(b"{}")]),
    }
)
HEADERS = st.dictionaries(
    st.sampled_from(["X-Linked-Size", "X-Linked-Etag", "Content-Range", "X-Xet-Hash", "Location"]),
    st.text('abc019/:["-', max_size=6),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entry=ENTRIES,
    etag=st.none() | st.sampled_from(["a/b", "tag", "..", "c" * 64]),
    headers=HEADERS,
)
def test_any_answer_gives_a_sound_model_or_one_line(spec, hub, entry, etag, headers):
    """Whatever a hub combines, no damaged file becomes a model."""
    hub.publish("acme/base", {"config.json": b"{}"})
    hub.answer = (200, {}, json.dumps({"sha": "a" * 40, "siblings": [entry]}).encode())
    hub.etag, hub.file_headers = etag, headers

    try:
        model = pull("base", spec)
    except ModelNotFoundError as error:
        assert str(error).isprintable()
    else:
        assert (model.path / "config.json").read_bytes() == b"{}"
