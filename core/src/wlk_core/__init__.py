"""
Streaming speech recognition: one clock, one contract, backends as plugins.

These names are for applications; `wlk_core.plugins` has those for authors of backends.  Each is
imported at its first use, so that ``import wlk_core`` imports no numpy and no framework.
"""

# The names are listed in the stub beside this file.

from __future__ import annotations

from typing import Any

from wlk_core._lazy import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, on first use."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely needed

        return version("wlk-core")
    return _load(name)
