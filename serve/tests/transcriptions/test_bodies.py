"""Recordings as request bodies, which some protocols use, over real sockets."""

from __future__ import annotations

import asyncio
from itertools import groupby
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("faster_whisper")

from starlette.responses import PlainTextResponse

from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_conformance.testing.digits import clip_path
from wlk_core.tokens import SpeakerSpan
from wlk_live import transcribe
from wlk_live.audio import decode_file, wave_header
from wlk_serve.admission import Limits
from wlk_serve.errors import RequestError
from wlk_serve.protocols import RecordingRoute, TranscriptionRequest
from wlk_serve.transcriptions.route import _headed

pytestmark = pytest.mark.slow
RECORDING = Path(clip_path("demo")).read_bytes()
HEADER = wave_header("f32le", rate=16_000, channels=1)
SAMPLES = np.concatenate(list(decode_file(RECORDING))).tobytes()


def open_recording(handshake):
    """Answer with the words, speakers and seconds; the query may request what is not supported."""
    if "speed" in handshake.query:
        raise RequestError("expected no speed")
    request = TranscriptionRequest(
        task="transcribe",
        language="en",
        response_format="diarized_json" if "speakers" in handshake.query else "json",
        header=HEADER if "samples" in handshake.query else b"",
    )
    return request, lambda name, words, seconds: {
        "id": name,
        "words": [word.text.strip() for word in words],
        "speakers": [word.speaker for word in words],
        "seconds": seconds,
    }


ROUTE = RecordingRoute(
    protocol="toy",
    path="/toy",
    open=open_recording,
    keys=lambda connection: connection.query_params.getlist("key"),
    refuse=lambda error: PlainTextResponse(f"no: {error}", error.status),
)


@pytest.fixture(scope="module")
def post(digits, serve, fetch):
    """Return a function that posts a body to the route, with a key in the query."""
    with serve(digits, Limits(max_upload_bytes=1 << 20), routes=[ROUTE]) as (address, _):
        root = address.removesuffix("/v1")
        yield lambda body, query="key=secret": fetch(root, "POST", f"/toy?{query}", body)[:2]


def test_the_answer_has_the_words_of_the_recording(digits, post):
    """The body can have any format that FFmpeg knows, and needs no form around it."""
    backend, _ = digits
    status, text = post(RECORDING)

    expected = transcribe(backend, clip_path("demo"), language="en")
    record = json.loads(text)
    assert (status, record["words"]) == (200, [word.text.strip() for word in expected.words])
    assert record["seconds"] == pytest.approx(expected.duration, abs=0.01)
    assert record["id"].startswith("req_")


@pytest.mark.parametrize("body", [SAMPLES, RECORDING], ids=["samples", "recording"])
def test_samples_without_a_header_are_read_as_declared(post, body):
    """Samples get the header that the protocol declares; a recording keeps its own."""
    _, expected = post(RECORDING)
    status, text = post(body, "key=secret&samples=1")

    assert status == 200
    assert {**json.loads(expected), "id": ""} == {**json.loads(text), "id": ""}


@pytest.mark.parametrize("size", [1, 3, 11, 40])
def test_a_recording_is_known_by_its_first_bytes_however_they_arrive(size):
    """Only samples get a header, once, and an empty body stays empty."""

    async def body(data):
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def headed(data):
        return b"".join([part async for part in _headed(body(data), HEADER)])

    assert asyncio.run(headed(RECORDING[:200])) == RECORDING[:200]
    assert asyncio.run(headed(SAMPLES[:200])) == HEADER + SAMPLES[:200]
    assert asyncio.run(headed(SAMPLES[:4])) == HEADER + SAMPLES[:4]
    assert asyncio.run(headed(b"")) == b""


def test_words_have_the_speakers_that_a_diarizer_found(digits, serve, fetch):
    """The protocol has to request speakers; the second one begins after two seconds."""
    spans = [SpeakerSpan("anna", 0.0, 2.0), SpeakerSpan("bert", 2.0, 60.0)]
    options = {"open_diarizer": lambda: ScriptedDiarizer(spans, max_delay=0.5), "routes": [ROUTE]}
    with serve(digits, **options) as (address, _):
        path = "/toy?key=secret&speakers=1"
        _, text, _ = fetch(address.removesuffix("/v1"), "POST", path, RECORDING)

    assert [name for name, _ in groupby(json.loads(text)["speakers"])] == ["anna", "bert"]


@pytest.mark.parametrize(
    ("body", "query", "status", "reason"),
    [
        (RECORDING, "", 401, "key"),
        (RECORDING, "key=wrong", 401, "key"),
        (RECORDING, "key=secret&speed=2", 400, "speed"),
        (b"", "key=secret", 400, "empty"),
        (b"no sound at all", "key=secret", 400, "audio"),
        (bytes(2 << 20), "key=secret", 413, "larger"),
    ],
    ids=["no-key", "wrong-key", "field", "empty", "text", "large"],
)
def test_a_refusal_has_the_shape_of_the_protocol(post, body, query, status, reason):
    """The key in a header, which the test client also sends, does not count for this protocol."""
    found, text = post(body, query)

    assert found == status
    assert text.startswith("no: ")
    assert reason in text
