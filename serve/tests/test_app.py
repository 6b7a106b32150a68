"""The application over HTTP and WebSockets: what it refuses, and how."""

from __future__ import annotations

import json
import struct

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

pytest.importorskip("faster_whisper")
pytestmark = pytest.mark.slow
FORMS = "/v1/audio/transcriptions"


@pytest.fixture
def ask(address, fetch):
    """Return a function that sends a request and returns status, body and headers."""

    def ask(method, path, body=None, **headers):
        status, text, found = fetch(address, method, path, body, **headers)
        return status, json.loads(text) if text.startswith("{") else text, found

    return ask


@pytest.mark.parametrize("path", ["/readyz", "/health"])
def test_a_server_is_ready_when_a_canary_came_through(ask, path):
    """Neither address needs a key; `/health` is the name that other servers use."""
    assert ask("GET", "/livez", x_api_key="")[0] == 200
    status, body, _ = ask("GET", path, x_api_key="")

    assert (status, body["status"]) == (200, "ready")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code", "reason"),
    [
        ("GET", "/v1/nothing", {}, 404, "unknown_url", "GET /v1/nothing is not served here"),
        ("GET", "/v1/../etc/passwd", {}, 404, "unknown_url", "not served"),
        ("GET", FORMS, {}, 405, "unknown_url", "not served here; use POST"),
        ("GET", "/v1/realtime", {}, 404, "unknown_url", "WebSocket, which a proxy must pass on"),
        ("GET", "/v1/models/large", {}, 404, "model_not_found", "use 'digits'"),
        ("POST", f"{FORMS}/", {}, 404, "unknown_url", "not served"),  # no redirect to http
        ("GET", "/v1/models", {"x_api_key": "wrong"}, 401, "invalid_api_key", "Bearer KEY"),
        ("GET", "/v1/models", {"origin": "https://evil.example"}, 403, "invalid_origin", "evil"),
        ("GET", "/v1/models", {"host": "evil.example"}, 403, "invalid_host", "evil.example"),
        ("POST", FORMS, {}, 400, "invalid_content_type", "multipart/form-data"),
        ("POST", FORMS, {"content_type": "multipart/form-data"}, 400, "invalid_form", "boundary"),
    ],
)
def test_a_refusal_has_the_shape_of_openai(*, ask, method, path, headers, status, code, reason):
    """Every refusal is an error object with a request id."""
    answer, body, answer_headers = ask(method, path, b"", **headers)

    assert (answer, body["error"]["code"]) == (status, code)
    assert reason in body["error"]["message"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert answer_headers["x-request-id"].startswith("req_")


def test_a_page_of_an_allowed_origin_may_use_the_addresses(ask):
    """Its browser sends a preflight request without a key; other origins are not allowed."""
    page = {"origin": "https://captions.example", "host": "captions.example"}
    _, _, headers = ask("GET", "/v1/models", **page)
    asked = {"access_control_request_method": "POST", "x_api_key": ""}

    assert headers["access-control-allow-origin"] == "https://captions.example"
    assert ask("OPTIONS", FORMS, **page, **asked)[0] == 200
    assert ask("OPTIONS", FORMS, **{**page, "origin": "https://evil.example"}, **asked)[0] == 400


@pytest.mark.parametrize(
    ("path", "key", "origin", "status", "code", "reason"),
    [
        ("/v1/realtime", "", None, 401, "invalid_api_key", "Bearer KEY"),
        ("/v1/realtime", "secret", "https://evil.example", 403, "invalid_origin", "--allow-origin"),
        ("/v1/realtime?model=large", "secret", None, 404, "model_not_found", "use 'digits'"),
        ("/v1/realtime?intent=chat", "secret", None, 400, "invalid_value", "as transcription"),
        ("/v1/realtime?wlk_last_seq=-1", "secret", None, 400, "invalid_value", "wlk_last_seq"),
        ("/api/asr-streaming", "secret", None, 404, "unknown_url", "use /v1/realtime"),  # of moshi
    ],
)
def test_a_socket_is_refused_before_it_is_accepted(
    *, address, path, key, origin, status, code, reason
):
    """The client receives a status and the error object, not a close code."""
    url = address.replace("http", "ws").removesuffix("/v1") + path
    with pytest.raises(InvalidStatus) as caught:
        connect(url, additional_headers={"x-api-key": key}, origin=origin)

    response = caught.value.response
    error = json.loads(response.body)["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert reason in error["message"]


def test_a_browser_sends_its_key_as_a_subprotocol(address):
    """The server selects "realtime" and never repeats the key."""
    url = address.replace("http", "ws") + "/realtime?intent=transcription"
    offered = ["realtime", "openai-insecure-api-key.secret"]

    with connect(url, subprotocols=offered, origin="https://captions.example") as socket:
        assert socket.subprotocol == "realtime"
        assert json.loads(socket.recv())["type"] == "session.created"
        socket.send(b"\x00\x01")
        assert json.loads(socket.recv())["error"]["code"] == "invalid_event"


def test_a_message_that_is_too_large_ends_one_session_alone(address):
    """
    The socket closes with 1009, and the server continues.

    The length of a frame is enough to refuse it.  A client that still sends the rest may be reset
    before it reads the close frame.
    """
    frame = struct.pack("!BBQ4x", 0x81, 0x80 | 127, 22 << 20)  # text, masked, a 64-bit length
    url = address.replace("http", "ws") + "/realtime"
    headers = {"x-api-key": "secret"}
    with connect(url, additional_headers=headers) as other:
        with connect(url, additional_headers=headers) as socket:
            socket.recv()
            with pytest.raises(ConnectionClosed) as closed:
                socket.socket.sendall(frame)
                socket.recv(timeout=30)
        other.recv()
        other.send("{}")
        assert json.loads(other.recv())["error"]["code"] == "invalid_event"

    assert closed.value.rcvd.code == 1009
