"""The authorities that certificates of servers are checked with."""

from __future__ import annotations

from pathlib import Path
import ssl

from wlk_core.plugins import OptionError

__all__ = ["tls_context"]


def tls_context(ca_file: str | None) -> ssl.SSLContext | None:
    """
    Return the context that trusts the certificates in *ca_file* alone; None for the system's.

    Raises:
        OptionError: it is no file of certificates.

    """
    if ca_file is None:
        return None
    path = Path(ca_file).expanduser()
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise OptionError(
            "realtime: expected option ca_file as a file of certificates (PEM), such as that of "
            f"the authority of the server; got {ca_file!r} ({reason})"
        ) from error
