"""Recordings that are transcribed while they arrive, over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
import socket
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

pytest.importorskip("faster_whisper")

from wlk_conformance.testing.digits import clip_path
from wlk_serve.errors import RequestError
from wlk_serve.http.body import Upload
from wlk_serve.models.card import ModelCard
from wlk_serve.models.service import Service
from wlk_serve.transcriptions import route as transcription_routes
from wlk_serve.transcriptions.growing_file import GrowingFile
from wlk_serve.transcriptions.protocol import (
    Recognized,
    TranscriptionRequest,
    TranscriptionStream,
    render,
)
from wlk_serve.transcriptions.route import _while_connected

pytestmark = pytest.mark.slow
RECORDING = Path(clip_path("demo")).read_bytes()
MODEL = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ndigits\r\n'
FORMAT = b'--x\r\nContent-Disposition: form-data; name="response_format"\r\n\r\ntext\r\n'
STREAM = b'--x\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
FILE = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.flac"\r\n\r\n'
    + RECORDING
    + b"\r\n"
)
END = b"--x--\r\n"


@pytest.fixture(scope="module")
def transcript(digits):
    """Return what the core makes of the clip."""
    backend, _ = digits
    return backend.transcribe(clip_path("demo"), language="en").text


def post(address, *chunks):
    """Return status and body of a request whose body is sent in chunks."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    headers = {"x-api-key": "secret", "content-type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/v1/audio/transcriptions", iter(chunks), headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


@pytest.mark.parametrize(
    "form",
    [MODEL + FORMAT + FILE + END, FILE + MODEL + FORMAT + END, MODEL + FILE + FORMAT + END],
    ids=["fields-first", "file-first", "a-field-last"],
)
def test_the_order_of_the_fields_changes_nothing(address, transcript, form):
    """A field after the recording counts as one before it."""
    chunks = [form[i : i + 5000] for i in range(0, len(form), 5000)]

    assert (200, transcript + "\n") == post(address, *chunks)


@pytest.mark.parametrize("field", [FORMAT, STREAM], ids=["whole", "streamed"])
def test_an_answer_is_written_outside_the_event_loop(address, transcript, monkeypatch, field):
    """Sessions go on while the words of a long recording become text."""
    loops = []

    def noting_loop(write):
        def noted(*args):
            loops.append(asyncio._get_running_loop())
            return write(*args)

        return noted

    monkeypatch.setattr(transcription_routes, "render", noting_loop(render))
    monkeypatch.setattr(TranscriptionStream, "done", noting_loop(TranscriptionStream.done))
    status, body = post(address, MODEL + field + FILE + END)

    assert 200 == status
    assert transcript in body
    assert [None] == loops


def test_words_come_before_the_recording_has_arrived(digits, transcript):
    """With a live policy, the rest of the file is sent when the first words are there."""
    backend, spec = digits
    live = {"policy": "local-agreement"}
    request = TranscriptionRequest(task="transcribe", language="en")

    async def recognize(service):
        file = GrowingFile()
        file.write(RECORDING[: len(RECORDING) * 3 // 4])
        results = service.recognize(file, request, lambda _seconds: None)
        first = await anext(results)
        file.write(RECORDING[len(RECORDING) * 3 // 4 :])
        file.finish()
        rest = [result async for result in results]
        file.close()
        return first, rest[-1]

    card = ModelCard.of(spec, "digits", "en")
    with Service(backend, card, workers=1, stream_options=live) as service:
        first, last = asyncio.run(recognize(service))

    assert not isinstance(first, Recognized)
    assert transcript == last.text


def test_a_slow_upload_keeps_no_other_recording_from_the_model(address, transcript):
    """It waits for its bytes without its turn, and a client that gives up leaves nothing."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.putrequest("POST", "/v1/audio/transcriptions")
    for name, value in [
        ("x-api-key", "secret"),
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-length", str(len(MODEL + FILE + END))),
    ]:
        connection.putheader(name, value)
    connection.endheaders()
    connection.send((MODEL + FILE)[:-10_000])
    answers = [post(address, MODEL + FORMAT + FILE + END) for _ in range(2)]
    connection.close()

    assert [(200, transcript + "\n")] * 2 == answers


def test_an_upload_in_the_middle_of_a_shutdown_is_to_be_tried_again(digits, serve):
    """The answer is 503, which clients repeat, and not the end of the connection."""
    with serve(digits) as (address, server):
        url = urlsplit(address)
        with socket.create_connection((url.hostname, url.port), 60) as client:
            client.sendall(
                b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"X-Api-Key: secret\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n"
                b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
            )
            begun = client.recv(65_536)  # the server waits for the body
            client.sendall(MODEL)
            server.handle_exit(15, None)
            answer = http.client.HTTPResponse(client)
            answer.begin()
            body = json.loads(answer.read())

    assert begun.startswith(b"HTTP/1.1 100 ")
    assert (503, "server_shutting_down") == (answer.status, body["error"]["code"])
    assert "5" == answer.getheader("retry-after")


def test_a_transcription_that_outlasts_the_shutdown_is_given_up():
    """Its client gets 503 before the process ends."""

    async def answer():
        upload = Upload()
        request = SimpleNamespace(receive=asyncio.Event().wait)
        waiting = asyncio.ensure_future(_while_connected(request, upload, asyncio.Future()))
        await asyncio.sleep(0)
        upload.close()
        upload.close()
        with pytest.raises(RequestError) as refused:
            await waiting
        return refused.value.status, refused.value.code

    assert (503, "server_shutting_down") == asyncio.run(answer())


def test_a_recording_that_is_none_is_refused_after_its_upload(address):
    """The error is that of the file, and not of the connection."""
    file = FILE.replace(RECORDING, b"no sound at all" * 1000)

    status, body = post(address, MODEL + file, END)

    assert (400, "invalid_audio") == (status, json.loads(body)["error"]["code"])
