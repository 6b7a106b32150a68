"""The scripted backend: an engine that reads coded audio, the reference for every rule."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_conformance.scripted.backend import DIGIT_WORDS, ScriptedBackend, ScriptedEngine
    from wlk_conformance.scripted.plugin import SCRIPTED_SPEC

__all__ = ["DIGIT_WORDS", "SCRIPTED_SPEC", "ScriptedBackend", "ScriptedEngine"]

# Loaded on first use, because the plugin module lives in this package and must not bring numpy.
_MODULES = ("plugin", "backend")


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    for module in _MODULES if name in __all__ else ():
        loaded = importlib.import_module(f"{__name__}.{module}")
        if hasattr(loaded, name):
            return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
