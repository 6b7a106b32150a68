"""A plugin that imports numpy through a module of its own."""

from __future__ import annotations

from faulty_backends.plugin_with_heavy_import import wlk_backends  # noqa: F401 -- the hook
