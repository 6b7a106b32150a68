"""What comes from outside, made safe to use: JSON within limits, hosts, and text for messages."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["JSONLimitError", "is_loopback", "mask_secrets", "one_line", "parse_limited_json"]

MASK = "***"
MAX_LINE = 300  # characters of foreign text in a message
MIN_SECRET = 6  # characters; a shorter secret occurs in other words, where a mask would show it

_CREDENTIALS = (
    (re.compile(r"(?<=//)[^\s/]*@"), f"{MASK}@"),  # user:password@; a password may contain @
    (re.compile(r"(?<=\?)[^\s'\"<>]*=[^\s'\"<>]*"), MASK),  # the query of a signed address
    (re.compile(r"hf_\w{6,}"), MASK),  # a token of the model hub
)


class JSONLimitError(ValueError):
    """JSON text that is too long or too deeply nested."""


def parse_limited_json(content: bytes, *, max_bytes: int) -> Any:
    """
    Return the value of JSON text in UTF-8, or raise JSONLimitError or another ValueError.

    Python itself limits the nesting, and the digits of a whole number to 4,300.  NaN is allowed,
    because some servers send it.
    """
    if len(content) > max_bytes:
        raise JSONLimitError(f"more than {max_bytes / 2**20:g} MiB")
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise JSONLimitError("values that are nested too deeply") from None


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


def one_line(text: str) -> str:
    """
    Return foreign text as it may stand in a message.

    White space becomes single spaces, control characters become escapes, whatever is written like
    a credential is masked, and text of more than 300 characters is cut.

    >>> one_line("no route to https://anna:word@hub.example/api?X-Signature=1")
    'no route to https://***@hub.example/api?***'
    """
    text = text[: 4 * MAX_LINE]  # the patterns take quadratic time
    for pattern, mask in _CREDENTIALS:
        text = pattern.sub(mask, text)
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in " ".join(text.split())[:MAX_LINE]
    )


def mask_secrets(text: str, secrets: Iterable[str], *, shortest: int = MIN_SECRET) -> str:
    """
    Return *text* without *secrets*, and without a beginning of one that "..." cuts off.

    Secrets of fewer than *shortest* characters stay.

    >>> mask_secrets("no such key: sk-0123456789, sk-01234...", ["sk-0123456789"])
    'no such key: ***, ***...'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= shortest:
            text = text.replace(secret, MASK)
            for length in range(len(secret) - 1, shortest - 1, -1):
                text = text.replace(f"{secret[:length]}...", f"{MASK}...")
    return text
