"""The command that this distribution adds to ``wlk-core``."""

from __future__ import annotations

from wlk_serve.cli import serve

__all__ = ["serve"]
