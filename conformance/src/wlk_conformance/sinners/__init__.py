"""Sinners: scripted backends that each break one rule, to prove that the suite sees it."""

from __future__ import annotations

__all__: list[str] = []  # imports nothing: two of the modules stand for plugins, which are light
