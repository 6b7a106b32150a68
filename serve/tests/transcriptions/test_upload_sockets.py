"""Recordings over real sockets: who waits for them, and what a shutdown does."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
import socket
from urllib.parse import urlsplit

import pytest

pytest.importorskip("faster_whisper")

from wlk_conformance.testing.digits import clip_path
from wlk_serve.transcriptions.transcript import Transcript

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


@pytest.fixture
def post(address, fetch):
    """Return a function that sends a form and returns status and text of the answer."""
    kind = {"content_type": "multipart/form-data; boundary=x"}
    return lambda form: fetch(address, "POST", "/v1/audio/transcriptions", form, **kind)[:2]


@pytest.mark.parametrize("field", [FORMAT, STREAM], ids=["whole", "streamed"])
def test_an_answer_is_written_outside_the_event_loop(post, transcript, monkeypatch, field):
    """Sessions go on while the words of a long recording become text."""
    loops = []

    def noting_loop(write):
        def noted(*args):
            loops.append(asyncio._get_running_loop())
            return write(*args)

        return noted

    for name in ("render", "done"):
        monkeypatch.setattr(Transcript, name, noting_loop(getattr(Transcript, name)))
    status, body = post(MODEL + field + FILE + END)

    assert 200 == status
    assert transcript in body
    assert [None] == loops


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
