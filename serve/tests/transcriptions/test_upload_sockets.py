"""Recordings over real sockets: they do not block others, and a shutdown refuses them."""

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
from wlk_live import transcribe
from wlk_serve.transcriptions.protocol import Transcript

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def transcript(digits):
    """Return the text of the clip, transcribed without a server."""
    backend, _ = digits
    return transcribe(backend, clip_path("demo"), language="en").text


@pytest.mark.parametrize("field", [{"response_format": "text"}, {"stream": "true"}])
def test_an_answer_is_written_outside_the_event_loop(
    address, post_form, transcript, monkeypatch, field
):
    """Sessions continue while the words of a long recording are serialised."""
    loops = []

    def noting_loop(write):
        def noted(*args):
            loops.append(asyncio._get_running_loop())
            return write(*args)

        return noted

    for name in ("render", "done"):
        monkeypatch.setattr(Transcript, name, noting_loop(getattr(Transcript, name)))
    recording = Path(clip_path("demo")).read_bytes()
    status, body = post_form(address, recording, model="digits", **field)

    assert status == 200
    assert transcript in body
    assert loops == [None]


def test_an_upload_in_the_middle_of_a_shutdown_is_to_be_tried_again(digits, serve):
    """The answer is 503, on which clients retry, and not a dropped connection."""
    with serve(digits) as (address, server):
        url = urlsplit(address)
        with socket.create_connection((url.hostname, url.port), 60) as client:
            client.sendall(
                b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"X-Api-Key: secret\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n"
                b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
            )
            begun = client.recv(65_536)  # the server waits for the body
            client.sendall(b"--x\r\n")
            server.handle_exit(15, None)
            answer = http.client.HTTPResponse(client)
            answer.begin()
            body = json.loads(answer.read())

    assert begun.startswith(b"HTTP/1.1 100 ")
    assert (answer.status, body["error"]["code"]) == (503, "server_shutting_down")
    assert answer.getheader("retry-after") == "5"
