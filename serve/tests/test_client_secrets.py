from __future__ import annotations

import base64

from hypothesis import given, strategies
import pytest

from wlk_serve.admission import Admission, parse_secret_request
from wlk_serve.errors import RequestError

SESSION = {"audio": {"input": {"turn_detection": None}}}


def keyed(*keys):
    """Return the checks of a server with keys."""
    return Admission.of(keys, [], is_local=True)


SERVER = keyed("key")


def test_a_secret_carries_its_session_until_it_expires():
    """A secret is invalid from the second of its expiry on."""
    secret, expires_at = SERVER.mint("ab", SESSION, 60, now=1000.5)

    assert expires_at == 1060
    assert secret.startswith("ek_")
    assert SERVER.read(secret, 1059.9) == ("ab", SESSION)
    assert SERVER.read(secret, 1060.0) is None


def test_a_secret_of_other_keys_is_invalid():
    """Servers with the same keys accept each other's secrets; one without keys only its own."""
    secret, _ = SERVER.mint("", {}, 60, now=0)

    assert keyed("key").read(secret, 0) == ("", {})
    assert keyed("other").read(secret, 0) is None
    assert keyed().signing_key != keyed().signing_key


@given(position=strategies.integers(0, 60), bit=strategies.integers(0, 7))
def test_a_secret_that_was_changed_is_invalid(position, bit):
    """Changing any bit of its signature or content makes it invalid."""
    secret, _ = SERVER.mint("", SESSION, 60, now=0)
    text = secret.removeprefix("ek_")
    data = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    data[position % len(data)] ^= 1 << bit
    changed = base64.urlsafe_b64encode(data).decode().rstrip("=")

    assert SERVER.read(f"ek_{changed}", 0) is None


@given(text=strategies.text() | strategies.text().map("ek_".__add__))
def test_any_text_is_no_secret(text):
    """No value that a client sends raises an error."""
    assert SERVER.read(text, 0) is None


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
    """The limits are OpenAI's, and such that a secret fits into a header."""
    with pytest.raises(RequestError) as caught:
        parse_secret_request(body)

    assert caught.value.param == param
