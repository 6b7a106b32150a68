"""Explain which command installs what an optional module of the suite imports."""

from __future__ import annotations


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return *error*, of an import that *extra* of wlk-conformance installs, with that command."""
    return ModuleNotFoundError(
        f"{error.name} is not installed; install it with: pip install 'wlk-conformance[{extra}]'",
        name=error.name,
    )
