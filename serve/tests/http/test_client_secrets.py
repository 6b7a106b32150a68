from __future__ import annotations

import base64

from hypothesis import given, strategies
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.http.admission import Client, ClientSecrets, parse_secret_request

SESSION = {"audio": {"input": {"turn_detection": None}}}


@pytest.fixture
def secrets():
    """Return the secrets of a server with one key."""
    return ClientSecrets.of(["key"])


def test_a_secret_carries_its_session_until_it_expires(secrets):
    """The second of its expiry is the first at which it is invalid."""
    client = Client(session=SESSION, key_id="ab")
    secret, expires_at = secrets.mint(client, 60, now=1000.5)

    assert expires_at == 1060
    assert secret.startswith("ek_")
    assert client == secrets.read(secret, 1059.9)
    assert secrets.read(secret, 1060.0) is None


def test_a_secret_of_other_keys_is_invalid(secrets):
    """Servers with the same keys accept each other's, and without keys each has its own."""
    secret, _ = secrets.mint(Client(session={}), 60, now=0)

    assert ClientSecrets.of(["key"]).read(secret, 0) == Client(session={})
    assert ClientSecrets.of(["other"]).read(secret, 0) is None
    assert ClientSecrets.of([]) != ClientSecrets.of([])


@given(position=strategies.integers(0, 60), bit=strategies.integers(0, 7))
def test_a_secret_that_was_changed_is_invalid(position, bit):
    """A change of any bit of signature or content breaks it."""
    secrets = ClientSecrets.of(["key"])
    secret, _ = secrets.mint(Client(session=SESSION), 60, now=0)
    text = secret.removeprefix("ek_")
    data = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    data[position % len(data)] ^= 1 << bit
    changed = base64.urlsafe_b64encode(data).decode().rstrip("=")

    assert secrets.read(f"ek_{changed}", 0) is None


@given(text=strategies.text() | strategies.text().map("ek_".__add__))
def test_any_text_is_no_secret(text):
    """Nothing that a client sends raises."""
    assert ClientSecrets.of(["key"]).read(text, 0) is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], "body"),
        ({"expires_after": 5}, "expires_after"),
        ({"expires_after": {"seconds": 9}}, "expires_after.seconds"),
        ({"expires_after": {"seconds": 7201}}, "expires_after.seconds"),
        ({"expires_after": {"seconds": True}}, "expires_after.seconds"),
        ({"session": "small"}, "session"),
        ({"session": {"prompt": "x" * 3000}}, "session"),
    ],
)
def test_a_wrong_request_is_named_by_its_field(body, param):
    """The limits are those of OpenAI, and a secret fits into a header."""
    with pytest.raises(RequestError) as caught:
        parse_secret_request(body)

    assert param == caught.value.param
