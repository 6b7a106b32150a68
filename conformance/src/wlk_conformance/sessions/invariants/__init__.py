"""Invariants: what holds after every call of every stream, one module for each family of rules."""

from __future__ import annotations

__all__: list[str] = []
