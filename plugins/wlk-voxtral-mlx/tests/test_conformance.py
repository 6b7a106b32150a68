"""voxtral-mlx with the digits checkpoint keeps the contract, with both kinds of modules."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from wlk_conformance import BackendConformance


class TestVoxtralMlx(BackendConformance):
    """Every rule of both tiers."""

    backend = "voxtral-mlx"
    model = "digits"


@pytest.mark.skipif(find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
class TestVoxtralVoxmlx(BackendConformance):
    """Every rule of both tiers, over the modules of voxmlx."""

    backend = "voxtral-mlx"
    model = "digits"
    options = {"engine": "voxmlx"}  # noqa: RUF012 -- the suite only reads it
