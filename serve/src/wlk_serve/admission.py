"""Decide who may use the server, by key, client secret, Origin and Host, and how much of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import os
import time
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import attrs
import msgspec
from msgspec import Meta

from wlk_core.errors import OptionError
from wlk_frameworks.servers import is_loopback
from wlk_serve.errors import RequestError, converted, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ID_CHARACTERS = 8  # the first hexadecimal digits of a key's digest identify a client in logs
_SECRET_PREFIX = "ek_"  # noqa: S105 -- OpenAI's prefix, not a secret
_MAX_SESSION_CHARACTERS = 2048  # a client secret contains the session and must fit into a header
_DIGEST_BYTES = hashlib.sha256().digest_size

Json: TypeAlias = dict[str, Any]


def read_keys(variable: str | None) -> list[str]:
    """
    Return the keys in the environment *variable*, separated by commas; no keys for None.

    Raises:
        OptionError: the variable is unset, or holds no key.

    """
    if variable is None:
        return []
    keys = [key.strip() for key in os.environ.get(variable, "").split(",") if key.strip()]
    if not keys:
        raise OptionError(f"expected a key in the variable {variable}, which is empty or not set")
    return keys


@attrs.frozen(kw_only=True)
class Limits:
    """
    How much of the server its clients may use.

    Attributes:
        max_sessions: maximum number of concurrent sockets and requests.
        max_sessions_per_key: maximum number of them with the same key; infinity for no limit.
        max_upload_bytes: maximum size of a form or of another body with a recording.
        max_audio_seconds: maximum length of a recording; even a small file can hold hours.
        max_session_seconds: maximum length of a session over a socket.
        idle_seconds: how long a client may send nothing over its socket.

    """

    max_sessions: int = 100
    max_sessions_per_key: float = math.inf
    max_upload_bytes: int = 1_000_000_000
    max_audio_seconds: float = 12 * 3600.0
    max_session_seconds: float = 6 * 3600.0
    idle_seconds: float = 600.0


@attrs.frozen(kw_only=True)
class Admission:
    """
    Checks the key, Origin and Host of a request before its body is read.

    A page on another site could open WebSockets to a server on this machine, because the
    same-origin policy does not cover WebSockets: the check of the Origin header prevents it.  The
    check of the Host header refuses foreign names that resolve to the loopback address (DNS
    rebinding).  The host of an allowed origin passes, because a proxy on the same machine passes on
    its public name.

    Attributes:
        key_digests: SHA-256 digests of the keys; empty if no key is needed.
        origins: origins, besides the server's own, of pages that may use the server, such as
            "https://captions.example".
        is_local: whether the server listens on a loopback address only.
        signing_key: signs client secrets for browsers.  A secret carries its own expiry and session
            and can only open sessions.  Servers with the same keys accept each other's secrets.

    """

    key_digests: frozenset[bytes] = frozenset()
    origins: frozenset[str] = frozenset()
    is_local: bool = True
    signing_key: bytes = attrs.field(factory=lambda: os.urandom(32), repr=False)

    @classmethod
    def of(cls, keys: Iterable[str], origins: Iterable[str], *, is_local: bool) -> Admission:
        """
        Return the checks for *keys* in plain text, of which only digests are kept.

        Raises:
            OptionError: an origin is not just a scheme and a host, as browsers send it.

        """
        plain = sorted(keys)
        signed = "\0".join(["wlk client secret", *plain])
        return cls(
            key_digests=frozenset(map(_digest, plain)),
            origins=frozenset(map(_origin, origins)),
            is_local=is_local,
            signing_key=_digest(signed) if plain else os.urandom(32),
        )

    def mint(self, key_id: str, session: Json, seconds: int, now: float) -> tuple[str, int]:
        """Return a new secret for *session* and its expiry, in seconds since the epoch."""
        expires_at = int(now) + seconds
        content = json.dumps([expires_at, session, key_id]).encode()
        signature = hmac.digest(self.signing_key, content, "sha256")
        text = base64.urlsafe_b64encode(signature + content).decode().rstrip("=")
        return _SECRET_PREFIX + text, expires_at

    def read(self, text: str, now: float) -> tuple[str, Json] | None:
        """Return the key id and session of the secret *text*; None if it is invalid or expired."""
        if not text.startswith(_SECRET_PREFIX):
            return None
        try:
            data = base64.urlsafe_b64decode(text.removeprefix(_SECRET_PREFIX) + "==")
        except ValueError:
            return None
        signature, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if not hmac.compare_digest(signature, hmac.digest(self.signing_key, content, "sha256")):
            return None
        expires_at, session, key_id = json.loads(content)  # written by `mint`
        return (key_id, session) if now < expires_at else None

    def check_site(self, headers: Mapping[str, str]) -> None:
        """Raise RequestError (403) for a foreign Host or Origin in *headers* (lower-case names)."""
        host, sites = headers.get("host", "").lower(), self.origins
        is_named = any(host == urlsplit(site).netloc for site in sites)
        if self.is_local and not is_named and not is_loopback(_hostname(host)):
            raise RequestError(
                f"expected the Host of this machine, got {host[:100]!r}; use http://127.0.0.1, or "
                "start the server with --allow-origin for the site of its proxy",
                status=403,
                code="invalid_host",
            )
        origin = headers.get("origin")
        own = {f"http://{host}", f"https://{host}"}
        if origin is not None and origin.lower() not in own | sites:
            raise RequestError(
                f"pages of {origin[:100]!r} may not use this server; start it with --allow-origin",
                status=403,
                code="invalid_origin",
            )

    def identify(
        self, keys: Iterable[str], *, takes_secrets: bool = False
    ) -> tuple[str, Json | None]:
        """
        Return the id of the client that offers *keys*, and the session of its client secret.

        The id is the beginning of the digest of its key, or of the key that requested the secret;
        it is empty if no key is needed.  Secrets count only if the caller *takes_secrets*.

        Raises:
            RequestError: 401 for a missing or wrong key.

        """
        keys, now = list(keys), time.time()
        # Timing may reveal a digest, which does not reveal the key.
        digests = [digest for digest in map(_digest, keys) if digest in self.key_digests]
        secrets = [secret for key in keys if (secret := self.read(key, now)) is not None]
        secret = secrets[0] if secrets and takes_secrets else None
        if self.key_digests and not digests and secret is None:
            raise RequestError(
                "expected a key of this server, as Authorization: Bearer KEY",
                status=401,
                code="invalid_api_key",
            )
        key_id, session = secret or ("", None)
        return digests[0].hex()[:_ID_CHARACTERS] if digests else key_id, session


class _Lifetime(msgspec.Struct):
    seconds: Annotated[int, Meta(ge=10, le=7200)] = 600


class _SecretRequest(msgspec.Struct):
    session: Json | None = None
    expires_after: _Lifetime | None = None


def parse_secret_request(body: object) -> tuple[Json, int]:
    """
    Return the session in a decoded JSON *body* and the lifetime of its secret in seconds.

    Raises:
        RequestError: a field has a wrong value.

    """
    request: _SecretRequest = converted(body, _SecretRequest)
    session = request.session or {}
    if len(json.dumps(session)) > _MAX_SESSION_CHARACTERS:
        raise invalid("session", f"of at most {_MAX_SESSION_CHARACTERS} characters of JSON")
    return session, (request.expires_after or _Lifetime()).seconds


def _origin(text: str) -> str:
    origin = text.rstrip("/").lower()
    scheme, separator, host = origin.partition("://")
    if not (scheme and separator and host) or any(mark in host for mark in "/?#@*"):
        raise OptionError(
            f"expected an origin such as https://captions.example, got {text[:200]!r}"
        )
    return origin


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
