"""The scripted backend: an engine that reads coded audio, the reference for every rule."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_conformance.scripted.backend import ScriptedBackend, ScriptedEngine
    from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
    from wlk_conformance.testing.digits import DIGIT_WORDS

__all__ = ["DIGIT_WORDS", "SCRIPTED_SPEC", "ScriptedBackend", "ScriptedEngine"]


def __getattr__(name: str) -> Any:
    """Load a public name on first use: importing the plugin module must not import numpy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.backend"), name)
