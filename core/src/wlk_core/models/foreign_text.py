"""Text from outside in a message: one line, printable, short and without credentials."""

from __future__ import annotations

import base64
from contextlib import suppress
import importlib
import os
from pathlib import Path
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["known_secrets", "known_tokens", "one_line", "without_secrets"]

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


def known_tokens() -> frozenset[str]:
    """
    Return the tokens of the hub that are stored on this machine.

    They are read here, because the library's `get_token` may renew one over the network.
    """
    constants: Any = importlib.import_module("huggingface_hub.constants")
    stored = [os.environ.get(name) or "" for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")]
    with suppress(OSError, ValueError):
        stored.append(Path(constants.HF_TOKEN_PATH).read_text(encoding="utf-8"))
    return frozenset(filter(None, map(str.strip, stored)))


def known_secrets() -> frozenset[str]:
    """Return the credentials of this process: the hub's tokens, and those inside HF_ENDPOINT."""
    secrets = set(known_tokens())
    address = os.environ.get("HF_ENDPOINT") or ""
    if "@" in address:
        account = address.partition("//")[2].rpartition("@")[0]
        secrets |= {account, *account.split(":", 1)}
        secrets |= {unquote(secret) for secret in secrets}
        secrets |= {base64.b64encode(secret.encode()).decode() for secret in secrets}
    return frozenset(filter(None, secrets))
