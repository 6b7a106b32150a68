from __future__ import annotations

import pytest

from wlk_core.errors import OptionError
from wlk_serve.admission import Admission
from wlk_serve.errors import RequestError
from wlk_serve.protocols import header_keys

OWN = {"host": "127.0.0.1:8000"}
PUBLIC = {"host": "captions.example"}


@pytest.fixture
def local():
    """Return the checks of a server without keys on a loopback address."""
    return Admission.of([], ["https://friend.example"], is_local=True)


@pytest.fixture
def keyed():
    """Return the checks of a public server with two keys."""
    return Admission.of(["first", "second"], [], is_local=False)


def refusal(admission, headers):
    """Return status and code of a refusal; None if the headers are accepted."""
    try:
        admission.check_site(headers)
        admission.identify(header_keys(headers))
    except RequestError as error:
        return error.status, error.code
    return None


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
def test_a_key_with_an_umlaut_is_accepted_in_a_header(name, encoding):
    """Servers read headers as Latin-1, and most clients write them in UTF-8."""
    admission = Admission.of(["schlüssel"], [], is_local=True)
    text = "schlüssel".encode(encoding).decode("latin-1")
    headers = {**OWN, name: f"Bearer {text}" if name == "authorization" else text}

    assert refusal(admission, headers) is None


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000"])
def test_a_local_server_answers_to_the_names_of_this_machine(local, host):
    """Every form of the loopback address counts."""
    assert refusal(local, {"host": host}) is None


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example", "[", "192.168.0.2"])
def test_a_foreign_host_is_refused(local, host):
    """A foreign name that resolves to the loopback address is DNS rebinding."""
    assert refusal(local, {"host": host}) == (403, "invalid_host")


@pytest.mark.parametrize(
    ("host", "is_accepted"),
    [
        ("friend.example", True),
        ("FRIEND.example", True),
        ("friend.example:8443", False),
        ("friend.example.evil.example", False),
    ],
)
def test_a_local_server_has_the_host_of_an_allowed_origin(local, host, is_accepted):
    """A proxy for that site passes on its name; host and port are compared as a whole."""
    assert refusal(local, {"host": host}) == (None if is_accepted else (403, "invalid_host"))


def test_a_public_server_has_any_host():
    """Only a local server checks the Host header; for a public server its proxy decides."""
    assert refusal(Admission.of([], [], is_local=False), PUBLIC) is None


@pytest.mark.parametrize(
    ("origin", "is_accepted"),
    [
        ("http://127.0.0.1:8000", True),
        ("https://friend.example", True),
        ("https://evil.example", False),
        ("http://127.0.0.1:8001", False),
        ("http://friend.example", False),
        ("https://friend.example.evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_an_origin_is_the_servers_own_or_allowed(local, origin, is_accepted):
    """Scheme, host and port are compared as a whole."""
    expected = None if is_accepted else (403, "invalid_origin")

    assert refusal(local, {**OWN, "origin": origin}) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer first"},
        {"authorization": "bearer second"},
        {"authorization": "Token first"},
        {"api-key": "first"},
        {"x-api-key": "second"},
        {"sec-websocket-protocol": "realtime, openai-insecure-api-key.first"},
    ],
)
def test_a_key_is_accepted_wherever_clients_put_it(keyed, headers):
    """Headers of OpenAI, Azure and Deepgram, and the subprotocol of browsers."""
    assert refusal(keyed, {**PUBLIC, **headers}) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer third"},
        {"authorization": "Bearer "},
        {"authorization": "first"},
        {"authorization": "Basic first"},
        {"sec-websocket-protocol": "realtime, first"},
        {"api-key": "\ud800"},
    ],
)
def test_a_request_without_a_right_key_is_refused(keyed, headers):
    """An empty key does not count as a key."""
    assert refusal(keyed, {**PUBLIC, **headers}) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "origin", ["captions.example", "*", "https://", "https://*.example", "https://a.example/page"]
)
def test_an_origin_that_no_browser_sends_is_refused(origin):
    """It would never match, and pages of the intended site would be refused without a reason."""
    with pytest.raises(OptionError, match="expected an origin such as https://"):
        Admission.of([], [origin], is_local=True)
