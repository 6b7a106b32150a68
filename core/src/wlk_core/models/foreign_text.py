"""Text from outside in a message: one line, printable, short and without credentials."""

from __future__ import annotations

import base64
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["known_secrets", "one_line", "without_secrets"]

MASK = "***"
LONGEST = 300  # characters of a foreign text in a message
SHORTEST_SECRET = 6  # characters; a shorter one occurs in other words, where a mask would show it

_PATTERNS = (
    re.compile(r"(?<=//)[^\s/]*@"),  # user:password@ of an address; a password may contain @
    re.compile(r"(?<=\?)[^\s'\"<>]*=[^\s'\"<>]*"),  # the query of a signed address
    re.compile(r"(?i)(?<=bearer )[^\s'\"]+|(?<=basic )[^\s'\"]+"),  # an Authorization header
    re.compile(r"hf_\w{6,}"),  # a token of the hub, of any account
)


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """
    Return foreign text as it may stand in a message.

    White space becomes single spaces, control characters become escapes, credentials are masked,
    and text of more than 300 characters is cut.
    """
    masked = without_secrets(text, secrets)
    joined = " ".join(masked.split())[:LONGEST]
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in joined
    )


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """
    Return *text* without *secrets* and without whatever is written like a credential.

    >>> without_secrets("no route to https://anna:word@hub.example/api?X-Signature=1")
    'no route to https://***@hub.example/api?***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(f"{MASK}@" if pattern is _PATTERNS[0] else MASK, text)
    return text


def known_secrets() -> frozenset[str]:
    """Return the credentials of this process: the hub's token, and those inside HF_ENDPOINT."""
    from huggingface_hub import get_token  # noqa: PLC0415 -- half a second

    secrets = {get_token() or ""}
    address = os.environ.get("HF_ENDPOINT") or ""
    if "@" in address:
        account = address.partition("//")[2].rpartition("@")[0]
        secrets |= {account, *account.split(":", 1)}
        secrets |= {unquote(secret) for secret in secrets}
        secrets |= {base64.b64encode(secret.encode()).decode() for secret in secrets}
    return frozenset(filter(None, secrets))
