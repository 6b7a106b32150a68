"""A server for any backend, which the clients of OpenAI's audio API use unmodified."""

# The names are listed in the stub beside this file.  They are loaded lazily because the help of
# ``wlk-core`` imports this package for its plugin module.

from __future__ import annotations

from typing import Any

from wlk_core._lazy import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, on first use."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely needed

        return version("wlk-serve")
    return _load(name)
