"""A plugin whose module imports its framework (pytest stands in for one)."""

from __future__ import annotations

import pytest  # noqa: F401 -- the fault

from faulty_backends.plugins import Framed

wlk_backends = Framed.wlk_backends
