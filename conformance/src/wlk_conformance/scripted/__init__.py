"""The scripted backend: an engine that reads coded audio, the reference for every rule."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_conformance.scripted.backend import ScriptedBackend
    from wlk_conformance.scripted.engine import DIGIT_WORDS, ScriptedEngine
    from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
    from wlk_conformance.scripted.tokenizer import END_OF_TEXT_ID

__all__ = [
    "DIGIT_WORDS",
    "END_OF_TEXT_ID",
    "SCRIPTED_SPEC",
    "ScriptedBackend",
    "ScriptedEngine",
]

# Loaded on first use, because the plugin module lives in this package and must not bring numpy.
_NAMES = {
    "wlk_conformance.scripted.engine": ("DIGIT_WORDS", "ScriptedEngine"),
    "wlk_conformance.scripted.tokenizer": ("END_OF_TEXT_ID",),
    "wlk_conformance.scripted.plugin": ("SCRIPTED_SPEC",),
    "wlk_conformance.scripted.backend": ("ScriptedBackend",),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
