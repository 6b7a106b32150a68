from __future__ import annotations

import pytest

from wlk_core.untrusted import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.9.8.7", "::1", "[::1]"]
)
def test_names_and_addresses_of_this_machine_are_loopback(host):
    """Upper case, the dot of a full name and the brackets of a URL change nothing."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "192.168.0.2", "::", "example.com", "localhost.evil", "127.0.0.1.evil.example"],  # noqa: S104 -- what is refused
)
def test_other_names_and_addresses_are_not(host):
    """A server without keys listens on none of them, and offline mode sends nothing to them."""
    assert not is_loopback(host)
