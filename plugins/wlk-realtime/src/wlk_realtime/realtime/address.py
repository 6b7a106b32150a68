"""The address of a server: what users write as the model."""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError, offline_mode
from wlk_core.untrusted import is_loopback

__all__ = ["Address"]

_EXAMPLE = "--model ws://HOST:8000/v1/realtime"
_PATH = "/realtime"
_PORTS = {"ws": 80, "wss": 443}


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
            ModelNotFoundError: it is no address of a WebSocket.
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
            is_address = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
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

    @classmethod
    def parse_all(cls, reference: str | None) -> tuple[Address, ...]:
        """Return the addresses of *reference*, separated by commas; see `parse`."""
        if reference is None:
            return (cls.parse(None),)
        return tuple(cls.parse(text.strip()) for text in reference.split(","))

    @property
    def host(self) -> str:
        """The name or address of the machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port, that of the scheme where none is written."""
        parts = urlsplit(self.url)
        return parts.port or _PORTS[parts.scheme]

    @property
    def is_encrypted(self) -> bool:
        """Whether key and audio are sent encrypted."""
        return self.url.startswith("wss:")

    @property
    def is_local(self) -> bool:
        """Whether the server is this machine, so that audio sent to it does not leave it."""
        return is_loopback(self.host)

    @property
    def models_path(self) -> str:
        """The path of the list of models, beside that of the WebSocket."""
        path = urlsplit(self.url).path.rstrip("/")
        return f"{path.removesuffix(_PATH)}/models"
