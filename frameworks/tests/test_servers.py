"""Keys of servers are masked in messages, also where a message was cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_frameworks.servers import is_loopback, mask_secret

KEYS = st.text("sk-0123456789abc", min_size=8, max_size=40)


@given(key=KEYS, data=st.data())
def test_the_beginning_of_a_key_that_is_cut_off_is_masked(key, data):
    """Quoted text is cut at a maximum length, which may cut the key too."""
    length = data.draw(st.integers(6, len(key)))

    assert mask_secret(f"no {key[:length]}...", key) == "no ***..."


@given(key=st.text("abc", max_size=5), text=st.text("abc ."))
def test_a_short_key_is_a_placeholder(key, text):
    """A short key stays, because its letters occur in other words."""
    assert mask_secret(text, key) == text


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "LOCALHOST", "localhost.", "127.9.8.7", "[::1]")),
        *((host, False) for host in ("", "192.168.0.2", "::", "example.com", "localhost.evil")),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_only_names_and_addresses_of_this_machine_are_loopback(host, expected):
    """Upper case, the dot of a full name and the brackets of a URL change nothing."""
    assert is_loopback(host) is expected
