"""
The suite on an installed backend.

``pytest --pyargs wlk_conformance.installed --wlk-backend NAME`` is what the command runs.
"""

from __future__ import annotations

from wlk_conformance.suite import BackendConformance

__all__ = ["TestInstalled"]


class TestInstalled(BackendConformance):
    """The contract; pytest's command line names the backend."""
