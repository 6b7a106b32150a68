"""The key for a server, from an environment variable."""

from __future__ import annotations

import os
import re

from wlk_core.plugins import BackendUnavailable, OptionError

__all__ = ["read_key"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_key(variable: str) -> str | None:
    """
    Return the key in *variable*, None where it is not set.

    Raises:
        OptionError: *variable* is no name of a variable.
        BackendUnavailable: its value has characters that no key has.

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
            f"spaces or characters that no key has; set it again with: export {variable}=..."
        )
    return key or None
