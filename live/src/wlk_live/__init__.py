"""
Transcribe recordings, microphones and any other audio with a backend of wlk-core.

Each name is imported on first use.  The stub beside this file lists the names.
"""

from __future__ import annotations

from wlk_core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
