"""A plugin whose module imports numpy."""

from __future__ import annotations

import numpy as np  # noqa: F401 -- the fault

from faulty_backends.plugins import Sound

wlk_backends = Sound.wlk_backends
