"""Names and addresses of machines, as users and clients write them."""

from __future__ import annotations

import ipaddress

__all__ = ["is_loopback"]


def is_loopback(host: str) -> bool:
    """
    Return whether *host* is this machine's own name or one of its loopback addresses.

    No name is resolved: a name that an outsider chose may resolve to any address.

    >>> is_loopback("localhost"), is_loopback("[::1]"), is_loopback("localhost.example")
    (True, True, False)
    """
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
