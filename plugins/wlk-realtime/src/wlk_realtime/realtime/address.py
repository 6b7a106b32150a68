"""Where a server listens, and the key and certificates that it is used with."""

from __future__ import annotations

import os
from pathlib import Path
import re
import ssl
from urllib.parse import urlsplit

import attrs

from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError, offline_mode
from wlk_core.untrusted import is_loopback

_EXAMPLE = "--model ws://HOST:8000/v1/realtime"
_PATH = "/realtime"
_AZURE = ".azure.com"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(kw_only=True)
class Address:
    """
    A WebSocket address, and the model that it is to run.

    Attributes:
        url: the address without the model.
        model: the name after the "#", None for the only one of the server.

    """

    url: str
    model: str | None = None

    @classmethod
    def parse(cls, reference: str | None) -> Address:
        """
        Return the address that *reference* is.

        Raises:
            ModelNotFoundError: it is not the address of a WebSocket, or None.
            OptionError: it contains a user name or a password.
            BackendUnavailable: the network is switched off, and the host is another machine.

        """
        if reference is None:
            raise ModelNotFoundError(
                f"realtime runs no model itself: name the server with {_EXAMPLE}"
            )
        url, _, model = reference.partition("#")
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in {"ws", "wss"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address or not url.isprintable() or " " in url:
            raise ModelNotFoundError(
                f"expected the model of realtime as the address of a server, {_EXAMPLE}, "
                f"got {url.rpartition('@')[2]!r}"
            )
        if parts.username or parts.password:
            raise OptionError(
                f"realtime: the address of {parts.hostname} contains a user name or password; "
                "keys come from the environment, see the option api_key_env"
            )
        address = cls(url=url, model=model or None)
        if offline_mode() and not address.is_local:
            raise BackendUnavailable(
                f"realtime sends audio to {address.url}, and the network is switched off "
                "(--offline, HF_HUB_OFFLINE); use a local backend (wlk-core backends) or a "
                "server on this machine: --model ws://127.0.0.1:8000/v1/realtime"
            )
        return address

    @property
    def host(self) -> str:
        """The name or address of the machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_encrypted(self) -> bool:
        """Whether key and audio are sent encrypted."""
        return self.url.startswith("wss:")

    @property
    def is_local(self) -> bool:
        """Whether the server is this machine, so that audio sent to it does not leave it."""
        return is_loopback(self.host)

    @property
    def origin(self) -> str:
        """The scheme, host and port for requests over HTTP."""
        parts = urlsplit(self.url)
        return f"http{parts.scheme.removeprefix('ws')}://{parts.netloc}"

    @property
    def models_path(self) -> str:
        """The path of the list of models, beside that of the WebSocket."""
        return f"{urlsplit(self.url).path.rstrip('/').removesuffix(_PATH)}/models"


@attrs.frozen(kw_only=True, eq=False)
class Endpoint:
    """
    An address with what is needed to use it.

    Attributes:
        address: where the server listens.
        key: sent to it, None for none.
        key_variable: the environment variable that it comes from, for messages.
        tls: the authorities that certificates are checked with, None for those of the system.
        timeout_seconds: the time of a request, connecting included.

    """

    address: Address
    key: str | None = attrs.field(default=None, repr=False)
    key_variable: str = "WLK_REALTIME_API_KEY"
    tls: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    timeout_seconds: float = 30.0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request, with the key; Azure reads it from one of its own."""
        if self.key is None:
            return {}
        headers = {"Authorization": f"Bearer {self.key}"}
        if self.address.host.endswith(_AZURE):
            headers["api-key"] = self.key
        return headers


def read_key(variable: str) -> str | None:
    """
    Return the key in the environment variable *variable*, None where it is not set.

    Raises:
        OptionError: *variable* is not the name of a variable.
        BackendUnavailable: its value cannot be sent as a key.

    """
    if not _VARIABLE.fullmatch(variable):
        raise OptionError(  # the value is not shown, because it may be the key itself
            "realtime: option api_key_env is the name of an environment variable, such as "
            "WLK_REALTIME_API_KEY, and never the key itself"
        )
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise BackendUnavailable(
            f"realtime: expected a key in the environment variable {variable}, and its value has "
            f"spaces or characters that a key cannot have; set it again with: "
            f"export {variable}=..."
        )
    return key or None


def tls_context(ca_file: str | None) -> ssl.SSLContext | None:
    """
    Return the context that trusts the certificates in *ca_file* alone; None for the system's.

    Raises:
        OptionError: *ca_file* is not a file of certificates.

    """
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=Path(ca_file).expanduser())
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise OptionError(
            "realtime: expected option ca_file as a file of certificates (PEM), such as that of "
            f"the authority of the server; got {ca_file!r} ({reason})"
        ) from error
