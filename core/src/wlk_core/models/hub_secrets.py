"""The credentials of a hub that this process knows, so that no message repeats them."""

from __future__ import annotations

import base64
from contextlib import suppress
import importlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

__all__ = ["known_secrets", "known_tokens"]


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
