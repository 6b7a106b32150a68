"""Parse the address of a server; read the key and the certificates to use with it."""

from __future__ import annotations

import os
from pathlib import Path
import re
import ssl
from urllib.parse import urlsplit

import attrs

from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError, offline_mode
from wlk_frameworks.servers import is_loopback

_EXAMPLE_OPTION = "--model ws://HOST:8000/v1/realtime"
_PATH_SUFFIX = "/realtime"
_AZURE_SUFFIX = ".azure.com"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(kw_only=True)
class Address:
    """
    The WebSocket address of a server, and the model to use there.

    Attributes:
        url: the address without the model.
        model: the name after the "#"; None if the server has a single model.

    """

    url: str
    model: str | None = None

    @classmethod
    def parse(cls, reference: str | None) -> Address:
        """
        Parse *reference*, ``URL`` or ``URL#MODEL``.

        Raises:
            ModelNotFoundError: it is None or not the address of a WebSocket.
            OptionError: it contains a user name or a password.
            BackendUnavailable: the network is switched off, and the host is another machine.

        """
        if reference is None:
            raise ModelNotFoundError(
                f"realtime runs no model itself: name the server with {_EXAMPLE_OPTION}"
            )
        url, _, model = reference.partition("#")
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in {"ws", "wss"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address or not url.isprintable() or " " in url:
            raise ModelNotFoundError(
                f"expected the model of realtime as the address of a server, {_EXAMPLE_OPTION}, "
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
                f"realtime sends audio to {address.url}, but the network is switched off "
                "(--offline, HF_HUB_OFFLINE); use a local backend (wlk-core backends) or a "
                "server on this machine: --model ws://127.0.0.1:8000/v1/realtime"
            )
        return address

    @property
    def host(self) -> str:
        """The host name or IP address."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_encrypted(self) -> bool:
        """Whether key and audio are sent encrypted."""
        return urlsplit(self.url).scheme == "wss"

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine, so that audio does not leave it."""
        return is_loopback(self.host)

    @property
    def origin(self) -> str:
        """The scheme, host and port for HTTP requests."""
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{urlsplit(self.url).netloc}"

    @property
    def models_path(self) -> str:
        """The path of the list of models, a sibling of the path of the WebSocket."""
        return f"{urlsplit(self.url).path.rstrip('/').removesuffix(_PATH_SUFFIX)}/models"


@attrs.frozen(kw_only=True, eq=False)
class ServerAccess:
    """
    How to reach a server: its address, with the key, certificates and timeout to use for it.

    Attributes:
        address: where the server listens.
        key: the API key to send; None to send none.
        key_variable: the environment variable that holds the key, for error messages.
        tls: trusts the certificates of the option `ca_file`; None to trust those of the system.
        timeout_seconds: the time limit of a request, connecting included.

    """

    address: Address
    key: str | None = attrs.field(default=None, repr=False)
    key_variable: str = "WLK_REALTIME_API_KEY"
    tls: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    timeout_seconds: float = 30.0

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key; Azure reads it from a header of its own."""
        if self.key is None:
            return {}
        headers = {"Authorization": f"Bearer {self.key}"}
        if self.address.host.endswith(_AZURE_SUFFIX):
            headers["api-key"] = self.key
        return headers


def read_key(variable: str) -> str | None:
    """
    Return the key in the environment variable *variable*; None if it is unset or empty.

    Raises:
        OptionError: *variable* is not a valid variable name.
        BackendUnavailable: the key contains spaces or characters that HTTP headers cannot carry.

    """
    if not _VARIABLE_NAME.fullmatch(variable):
        raise OptionError(  # the value is not shown, because it may be the key itself
            "realtime: option api_key_env takes the name of an environment variable, such as "
            "WLK_REALTIME_API_KEY, never the key itself"
        )
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise BackendUnavailable(
            f"realtime: expected a key in the environment variable {variable}, but its value "
            "contains spaces or characters that a key cannot have; set it again with: "
            f"export {variable}=..."
        )
    return key or None


def tls_context(ca_file: str | None) -> ssl.SSLContext | None:
    """
    Return a context that trusts only the certificates in *ca_file*; None if it is None.

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
            "realtime: expected option ca_file as a file of certificates (PEM), such as the one "
            f"of the server's authority; got {ca_file!r} ({reason})"
        ) from error
