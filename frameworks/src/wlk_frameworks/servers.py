"""What plugins that talk to a server share: keep its key out of messages, tell if it is local."""

from __future__ import annotations

import ipaddress

_MASK = "***"
_MIN_SECRET = 6  # characters; a shorter secret occurs in other words, where a mask reveals it


def mask_secret(text: str, secret: str) -> str:
    """
    Return *text* with *secret* masked, even if "..." cuts off its end.

    A secret of fewer than six characters is not masked.

    >>> mask_secret("no such key: sk-0123456789, sk-01234...", "sk-0123456789")
    'no such key: ***, ***...'
    """
    if len(secret) >= _MIN_SECRET:
        text = text.replace(secret, _MASK)
        for length in range(len(secret) - 1, _MIN_SECRET - 1, -1):
            text = text.replace(f"{secret[:length]}...", f"{_MASK}...")
    return text


def is_loopback(host: str) -> bool:
    """
    Return whether *host* is this machine's own name or one of its loopback addresses.

    Names are not resolved: a name that an outsider chose can resolve to any address.

    >>> is_loopback("localhost"), is_loopback("[::1]"), is_loopback("localhost.example")
    (True, True, False)
    """
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
