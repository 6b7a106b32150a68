"""A plugin that imports a module of its own, and with it numpy."""

from __future__ import annotations

from faulty_backends.plugin_with_heavy_import import wlk_backends  # noqa: F401 -- the hook
