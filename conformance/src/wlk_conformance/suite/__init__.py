"""The suite: every rule of the contract, collected into the class that authors subclass."""

from __future__ import annotations

from wlk_conformance.suite.conformance import BackendConformance

__all__ = ["BackendConformance"]
