"""One contract for streaming speech recognition, and the suite that proves backends against it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_conformance.engine_faults import EngineFault, EngineFaults
    from wlk_conformance.interfaces import SupportsCodedAudio, SupportsEngineCalls, SupportsHabits
    from wlk_conformance.rules import SUITE_VERSION
    from wlk_conformance.suite import BackendConformance

__all__ = [
    "SUITE_VERSION",
    "BackendConformance",
    "EngineFault",
    "EngineFaults",
    "SupportsCodedAudio",
    "SupportsEngineCalls",
    "SupportsHabits",
]

# Loaded on first use, because importing the scripted backend's plugin module also imports this
# package and must not import numpy.
_MODULES = ("rules", "suite", "engine_faults", "interfaces")


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in __all__:
        for module in _MODULES:
            loaded = importlib.import_module(f"{__name__}.{module}")
            if hasattr(loaded, name):
                return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
