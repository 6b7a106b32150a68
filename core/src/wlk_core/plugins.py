"""
What the author of a backend imports, from specs to recognizers.

`wlk_core.streaming` has the parts of which recognizers are built.

Each name is loaded on first use, so a plugin module that declares a backend can import this module
without importing numpy or a framework.  The stub beside this file lists the names.
"""

from __future__ import annotations

from wlk_core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
