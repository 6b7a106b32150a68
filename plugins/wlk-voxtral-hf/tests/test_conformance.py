"""voxtral-hf with the digits checkpoint keeps the contract."""

from __future__ import annotations

from wlk_conformance import BackendConformance


class TestVoxtralHf(BackendConformance):
    """Every rule of both tiers."""

    backend = "voxtral-hf"
    model = "digits"
