"""A server of several models that holds one of them at a time."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
import http.client
import json
import threading
import time
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from wlk_conformance.testing.digits import clip_path

pytest.importorskip("faster_whisper")
pytestmark = pytest.mark.slow

PATIENCE = 120  # seconds, for what takes one on a machine that is idle


def load(card):
    """Load the digits model for a card of any name."""
    from wlk_core.registry import Registry  # noqa: PLC0415 -- as the fixtures do
    from wlk_serve.models.service import Service  # noqa: PLC0415 -- as above

    with ExitStack() as stack:
        backend = stack.enter_context(Registry().load_backend("faster-whisper", "digits"))
        service = Service(backend, card, workers=1, owns_backend=True)
        stack.pop_all()
    return service


@contextmanager
def serving(pool):
    """Yield the host and port of a server of a pool; drain it at the end."""
    from wlk_serve.app import Server  # noqa: PLC0415 -- as above
    from wlk_serve.http.server import DrainingServer  # noqa: PLC0415 -- as above

    ports, is_ready = [], threading.Event()

    def on_ready(port):
        ports.append(port)
        is_ready.set()

    server = DrainingServer(
        Server(pool), host="127.0.0.1", port=0, drain_seconds=0.0, on_ready=on_ready
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert is_ready.wait(60)
        yield f"127.0.0.1:{ports[0]}"
    finally:
        server.handle_exit(15, None)
        thread.join(60)
        pool.close()


@pytest.fixture
def pool(digits):
    """Return a pool of the models first and second, of which one may be loaded."""
    from wlk_serve.models.card import ModelCard  # noqa: PLC0415 -- as above
    from wlk_serve.models.pool import ModelPool  # noqa: PLC0415 -- as above
    from wlk_serve.ops.metrics import Metrics  # noqa: PLC0415 -- as above

    _, spec = digits
    cards = [ModelCard(name=name, spec=spec, language="en") for name in ("first", "second")]
    return ModelPool(cards, load, max_models=1, metrics=Metrics(), patience=60.0)


def transcribe(host, model):
    """Return the status, headers and answer of an upload to a model."""
    boundary = b"end-of-part"
    head = f'--end-of-part\r\ncontent-disposition: form-data; name="model"\r\n\r\n{model}\r\n'
    head += '--end-of-part\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
    body = head.encode() + clip_path("demo").read_bytes() + b"\r\n--" + boundary + b"--\r\n"
    connection = http.client.HTTPConnection(urlsplit(f"//{host}").netloc, timeout=PATIENCE)
    kind = f"multipart/form-data; boundary={boundary.decode()}"
    connection.request("POST", "/v1/audio/transcriptions", body, {"content-type": kind})
    answer = connection.getresponse()
    fields = json.loads(answer.read())
    connection.close()
    return answer.status, answer.headers, fields


def test_a_model_makes_room_when_its_last_session_has_ended(pool):
    """Until then its session goes on, and clients of the other model may try again."""
    with serving(pool) as host:
        url = f"ws://{host}/v1/realtime?model=second"
        with connect(url, open_timeout=PATIENCE) as session:
            created = json.loads(session.recv(timeout=PATIENCE))["session"]
            shared = transcribe(host, "second")
            refused = transcribe(host, "first")
            with pytest.raises(InvalidStatus) as closed_door:
                connect(f"ws://{host}/v1/realtime?model=first", open_timeout=PATIENCE)
            session.send(json.dumps({"type": "session.update", "session": {}}))
            updated = json.loads(session.recv(timeout=PATIENCE))["type"]
        deadline = time.monotonic() + PATIENCE
        moved = transcribe(host, "first")
        while moved[0] == 503 and time.monotonic() < deadline:  # the socket is being closed
            moved = transcribe(host, "first")
        loaded = pool.loaded

    assert "second" == created["audio"]["input"]["transcription"]["model"]
    assert (200, 13) == (shared[0], len(shared[2]["text"].split()))
    assert (503, "5") == (refused[0], refused[1]["retry-after"])
    assert "server_overloaded" == refused[2]["error"]["code"]
    assert 503 == closed_door.value.response.status_code
    assert "session.updated" == updated
    assert shared[2]["text"] == moved[2]["text"]
    assert ("first",) == loaded


def test_every_model_is_listed_and_an_unknown_one_is_refused(pool):
    """The list needs no load; the message of a refusal names the models that there are."""
    with serving(pool) as host:
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        connection.request("GET", "/v1/models")
        models = json.loads(connection.getresponse().read())["data"]
        connection.request("GET", "/v1/models/second")
        second = json.loads(connection.getresponse().read())
        connection.close()
        status, _, unknown = transcribe(host, "third")
        loaded = pool.loaded

    assert ["first", "second"] == [model["id"] for model in models]
    assert models[1] == second
    assert (404, "model_not_found") == (status, unknown["error"]["code"])
    assert "use one of 'first', 'second'" in unknown["error"]["message"]
    assert () == loaded
