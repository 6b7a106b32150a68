"""
Everything an author of a backend needs, from the declaration to the recognizers.

Each name is loaded when it is first used: a plugin module that declares a backend imports this
module, and neither numpy nor a framework comes with it.  The names are listed in the stub beside
this file.
"""

from __future__ import annotations

from wlk_core._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
