"""One contract for streaming speech recognition, and the suite that proves backends against it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_conformance.engine_faults import EngineFault, EngineFaults
    from wlk_conformance.rules import SUITE_VERSION
    from wlk_conformance.seams import SupportsCodedAudio, SupportsEngineCalls, SupportsHabits
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

# Loaded on first use, because the plugin module of the scripted backend lives in this package and
# must not bring numpy.
_HOME = {
    "SUITE_VERSION": "wlk_conformance.rules",
    "BackendConformance": "wlk_conformance.suite",
    "EngineFault": "wlk_conformance.engine_faults",
    "EngineFaults": "wlk_conformance.engine_faults",
    "SupportsCodedAudio": "wlk_conformance.seams",
    "SupportsEngineCalls": "wlk_conformance.seams",
    "SupportsHabits": "wlk_conformance.seams",
}


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, on first use."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- rarely needed

        return version("wlk-conformance")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
