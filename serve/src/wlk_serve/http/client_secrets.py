"""Client secrets: keys for browsers that expire, and that no server has to remember."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from wlk_serve.errors import converted, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PREFIX", "Client", "ClientSecrets", "parse_secret_request"]

PREFIX = "ek_"
_MAX_SESSION_CHARACTERS = 2048  # a secret travels in a header
_DIGEST_BYTES = hashlib.sha256().digest_size

Json: TypeAlias = dict[str, Any]


@attrs.frozen(kw_only=True)
class Client:
    """
    Who asks.

    Attributes:
        key_id: the beginning of the digest of its key, or of that which requested its secret; empty
            where none is needed.
        session: the configuration that its client secret carries; None without one.

    """

    key_id: str = ""
    session: Json | None = None


@attrs.frozen(kw_only=True)
class ClientSecrets:
    """
    Secrets that carry their own expiry and session, signed with `signing_key`.

    Every process with the same key accepts them.
    """

    signing_key: bytes = attrs.field(factory=lambda: os.urandom(32), repr=False)

    @classmethod
    def of(cls, keys: Iterable[str]) -> ClientSecrets:
        """Return the secrets of servers with these API keys; of one process without any."""
        joined = "\0".join(sorted(keys)).encode("utf-8", "surrogatepass")
        if not joined:
            return cls()
        return cls(signing_key=hashlib.sha256(b"wlk client secret\0" + joined).digest())

    def mint(self, client: Client, seconds: int, now: float) -> tuple[str, int]:
        """Return a new secret of *client*, and the second of the epoch at which it expires."""
        expires_at = int(now) + seconds
        content = json.dumps([expires_at, client.session, client.key_id]).encode()
        signature = hmac.digest(self.signing_key, content, "sha256")
        text = base64.urlsafe_b64encode(signature + content).decode().rstrip("=")
        return PREFIX + text, expires_at

    def read(self, text: str, now: float) -> Client | None:
        """Return the client whose secret is *text*, None for an invalid or expired one."""
        if not text.startswith(PREFIX) or not text.isascii():
            return None
        text = text.removeprefix(PREFIX)
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        signature, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if not hmac.compare_digest(signature, hmac.digest(self.signing_key, content, "sha256")):
            return None
        expires_at, session, key_id = json.loads(content)  # written by `mint`
        return Client(session=session, key_id=key_id) if now < expires_at else None


class _Lifetime(msgspec.Struct):
    seconds: Annotated[int, Meta(ge=10, le=7200)] = 600


class _SecretRequest(msgspec.Struct):
    session: Json | None = None
    expires_after: _Lifetime | None = None


def parse_secret_request(body: object) -> tuple[Json, int]:
    """
    Return the session of a decoded JSON *body*, and for how many seconds its secret is valid.

    Raises:
        RequestError: a field has a wrong value.

    """
    request: _SecretRequest = converted(body, _SecretRequest)
    session = request.session or {}
    if len(json.dumps(session)) > _MAX_SESSION_CHARACTERS:
        raise invalid("session", f"of at most {_MAX_SESSION_CHARACTERS} characters of JSON")
    return session, (request.expires_after or _Lifetime()).seconds
