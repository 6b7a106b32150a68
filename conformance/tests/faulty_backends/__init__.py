"""Scripted backends that each break one rule, which proves that the suite detects it."""

from __future__ import annotations

__all__: list[str] = []  # imports nothing: two modules here are plugins, whose import is light
