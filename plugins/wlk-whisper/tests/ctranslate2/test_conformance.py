"""faster-whisper with the digits checkpoint keeps the contract."""

from __future__ import annotations

from wlk_conformance import BackendConformance


class TestFasterWhisper(BackendConformance):
    """Every rule of both tiers."""

    backend = "faster-whisper"
    model = "digits"
