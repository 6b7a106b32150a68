"""Text from outside in a message: one line, printable, short and without credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MASK", "mask_secrets", "one_line", "without_secrets"]

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
    text = mask_secrets(text, secrets)
    for pattern in _PATTERNS:
        text = pattern.sub(f"{MASK}@" if pattern is _PATTERNS[0] else MASK, text)
    return text


def mask_secrets(text: str, secrets: Iterable[str], *, shortest: int = SHORTEST_SECRET) -> str:
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
