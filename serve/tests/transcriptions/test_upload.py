"""Forms with a recording, and requests that end early."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
import errno
from itertools import pairwise
import json
from types import SimpleNamespace
from unittest.mock import AsyncMock

from hypothesis import given, strategies
import pytest
from starlette.datastructures import Headers

from wlk_core.errors import BackendError
from wlk_live.session import Commit, Failure
from wlk_serve.admission import Limits
from wlk_serve.errors import RequestError
from wlk_serve.ops.metrics import Metrics
from wlk_serve.protocols import TranscriptionRequest
from wlk_serve.transcriptions.protocol import Transcript
from wlk_serve.transcriptions.route import Upload, _events, _records, parse_upload, recording_of

TYPE = "multipart/form-data; boundary=x"


def part(name, value, filename=None):
    """Return a part of a form."""
    extra = "" if filename is None else f'; filename="{filename}"\r\nContent-Type: audio/flac'
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'
    return head.encode() + value + b"\r\n"


BODY = (
    part("model", b"digits")
    + part("prompt", "Grüße".encode())
    + part("file", b"\r\n--y\r\nsound\r\n-", "a.flac")
    + part("language", b"en")
    + b"--x--\r\n"
)


def request(chunks, content_type=TYPE):
    """Return a request whose body comes in *chunks*, followed by a disconnect."""
    chunks = [*chunks]
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages += [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    return SimpleNamespace(headers=Headers({"content-type": content_type}), receive=receive)


def parsed(chunks, content_type=TYPE):
    """Return the fields and the recording of a body."""

    async def parse():
        form = await parse_upload(request(chunks, content_type), 1 << 30)
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        try:
            return fields, await recording_of(form).read()
        finally:
            await form.close()

    return asyncio.run(parse())


@given(strategies.lists(strategies.integers(0, len(BODY)), max_size=8))
def test_a_form_is_the_same_however_it_is_cut(places):
    """Fields can come before and after the file."""
    cuts = [0, *sorted(places), len(BODY)]
    chunks = [BODY[a:b] for a, b in pairwise(cuts)]

    fields = [("model", "digits"), ("prompt", "Grüße"), ("language", "en")]
    assert parsed(chunks) == (fields, b"\r\n--y\r\nsound\r\n-")


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (BODY, "multipart/form-data", "invalid_form"),
        (BODY, "multipart/form-data; boundary=" + "x" * 300, "invalid_form"),
        (b"no form", TYPE, "invalid_form"),
        (part("file", b"a", "a") + part("file", b"b", "b") + b"--x--\r\n", TYPE, "invalid_form"),
        (part("image", b"a", "a") + b"--x--\r\n", TYPE, "invalid_form"),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--\r\n", TYPE, "invalid_form"),
        (b"".join(part("a", b"") for _ in range(101)) + b"--x--\r\n", TYPE, "invalid_form"),
        (b"".join(part(n, bytes(1 << 19)) for n in "abc") + b"--x--\r\n", TYPE, "invalid_form"),
        (part("file", b"", "a") + b"--x--\r\n", TYPE, "invalid_audio"),
        (BODY[: BODY.index(b"sound")], TYPE, "invalid_form"),
        (b"", TYPE, "invalid_form"),
        (part("file", b"text") + b"--x--\r\n", TYPE, "missing_file"),
        (b"{}", "application/json", "invalid_content_type"),
    ],
    ids=[
        *("no-boundary", "long-boundary", "text", "two-files", "other-file", "no-name"),
        *("many-fields", "long-fields", "empty-file", "cut", "empty", "no-file", "json"),
    ],
)
def test_what_is_no_form_with_a_recording_is_one_error(body, content_type, code):
    """An incomplete recording is an error, too."""
    with pytest.raises(RequestError) as caught:
        parsed([body], content_type)

    assert (caught.value.status, caught.value.code) == (400, code)


@given(
    strategies.binary(max_size=200),
    strategies.text(strategies.characters(max_codepoint=255), max_size=30),  # in any header
)
def test_no_bytes_make_a_form_fail_in_another_way(body, content_type):
    """Whatever a client sends is refused, as malformed or as a form without a file."""
    for kind in (TYPE, f"multipart/form-data; boundary={content_type}", content_type):
        for start in (b"", b"--x\r\n"):
            with pytest.raises(RequestError) as caught:
                parsed([start + body], kind)
            assert caught.value.code in {"invalid_form", "invalid_content_type", "missing_file"}


async def _sent():
    return {"type": "http.request", "body": b"123"}


@pytest.mark.parametrize(
    ("length", "receive", "status", "code"),
    [
        ("0", _sent, 413, "file_too_large"),
        ("3", None, 413, "file_too_large"),
        ("0", asyncio.Event().wait, 408, "timeout"),
    ],
    ids=["sent", "told", "stopped"],
)
def test_a_body_that_is_too_large_or_stops_coming_is_refused(
    monkeypatch, length, receive, status, code
):
    """It is refused by its header, before any byte is read, or while it arrives."""
    monkeypatch.setattr("wlk_serve.transcriptions.route._WAIT_SECONDS", 0.01)
    asked = SimpleNamespace(headers=Headers({"content-length": length}), receive=receive)

    with pytest.raises(RequestError) as refused:
        asyncio.run(parse_upload(asked, 2))

    assert (refused.value.status, refused.value.code) == (status, code)


def test_a_disk_without_room_for_a_recording_is_one_error(monkeypatch):
    """A full disk is not a defect of the server, and the next recording may be shorter."""
    full = AsyncMock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("starlette.datastructures.UploadFile.write", full)
    with pytest.raises(RequestError, match="could not be stored: No space left") as refused:
        parsed([BODY])
    assert refused.value.status == 507


@pytest.mark.parametrize("name", ["known_speaker_references", "known_speaker_references[]"])
def test_recordings_of_known_speakers_are_left_out(name):
    """Each has megabytes, and the request only needs to know that they came."""
    fields, _ = parsed([part(name, b"data:audio/wav;base64," + b"A" * (3 << 20)) + BODY])

    assert fields[0] == (name, "")


@pytest.mark.parametrize("end", [Upload.close, None], ids=["shutdown", "client-left"])
def test_a_transcription_that_nobody_waits_for_is_given_up(end):
    """In a shutdown, a client that still waits gets 503 before the process ends."""

    async def answer():
        upload = Upload(Metrics(), Limits())
        http_request = SimpleNamespace(receive=asyncio.Event().wait if end else _disconnect)
        if end is not None:
            end(upload)
            end(upload)
        with pytest.raises(RequestError) as refused:
            await upload.while_connected(http_request, asyncio.Future())
        return refused.value.status

    assert asyncio.run(answer()) == (499 if end is None else 503)


async def _disconnect():
    return {"type": "http.disconnect"}


def test_a_failure_in_a_stream_is_an_event_with_an_error(token):
    """OpenAI's SDK raises the event as an APIError; it does not disclose the cause."""

    async def recognize(*_, channel):
        yield Commit((token("zero"),), 1.0)
        yield Failure(BackendError("GPU 0 is lost"), True, 1.0)

    async def written():
        upload = Upload(Metrics(), Limits())
        request = TranscriptionRequest(task="transcribe")
        transcript = Transcript(request)
        service = SimpleNamespace(recognize=recognize)
        records = _records(service, None, request, upload, transcript)
        first = asyncio.ensure_future(anext(records, None))
        events = _events(first, records, transcript, upload, AsyncExitStack())
        return [text async for text in events]

    *_, delta, failed = [json.loads(text.removeprefix("data: ")) for text in asyncio.run(written())]

    assert delta["delta"] == "zero"
    assert (failed["error"]["code"], failed["error"]["type"]) == ("engine_failed", "server_error")


def test_a_stream_without_an_event_sends_comments(monkeypatch):
    """A recording may begin with minutes of silence, after which proxies close the connection."""
    monkeypatch.setattr("wlk_serve.transcriptions.route._COMMENT_SECONDS", 0)

    async def written():
        async def records():
            await heard.wait()
            yield [{"type": "transcript.text.delta", "delta": "zero"}]

        heard = asyncio.Event()
        all_records = records()
        upload = Upload(Metrics(), Limits())
        transcript = Transcript(TranscriptionRequest(task="transcribe"))
        first = asyncio.ensure_future(anext(all_records, None))
        parts = []
        async for part in _events(first, all_records, transcript, upload, AsyncExitStack()):
            parts.append(part)
            if len(parts) == 2:
                heard.set()
        return parts

    parts = asyncio.run(written())
    comments = [part for part in parts if part == ": transcribing\n\n"]

    assert parts[:2] == comments[:2]
    assert [json.loads(part[6:])["type"] for part in parts[len(comments) :]] == [
        "transcript.text.delta",
        "transcript.text.done",
    ]


def test_what_a_form_lacks_is_named():
    """A recording without a filename is a text; a JSON body is no form."""
    with pytest.raises(RequestError, match=r'with a filename: .*filename="a\.wav"'):
        parsed([part("file", bytes(1 << 20)) + b"--x--\r\n"])
    with pytest.raises(RequestError, match=r"multipart/form-data; got 'application/json'"):
        parsed([b"{}"], "application/json")
