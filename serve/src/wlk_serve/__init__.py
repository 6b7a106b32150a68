"""A server for any backend, which the clients of OpenAI's audio API use unmodified."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Look the version up on first use."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely needed

        return version("wlk-serve")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
