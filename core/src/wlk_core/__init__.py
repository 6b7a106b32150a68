"""
Streaming speech recognition: one clock, one contract, backends as plugins.

The names here are for applications; `wlk_core.plugins` has those for backend authors.  Each is
imported on first use, so ``import wlk_core`` imports neither numpy nor a framework.
"""

# The stub beside this file lists the names.

from __future__ import annotations

from typing import Any

from wlk_core.lazy import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, on first use."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely needed

        return version("wlk-core")
    return _load(name)
