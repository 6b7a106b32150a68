"""faster-whisper and Whisper on torch keep the contract with the digits checkpoint."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from wlk_conformance import BackendConformance

needs_torch = pytest.mark.skipif(find_spec("transformers") is None, reason="wlk-whisper[torch]")


class TestFasterWhisper(BackendConformance):
    """Every rule of both tiers."""

    backend = "faster-whisper"
    model = "digits"


@needs_torch
class TestWhisperWithAlignAtt(BackendConformance):
    """Every rule of both tiers."""

    backend = "whisper"
    model = "digits"
    options = {"policy": "alignatt"}  # noqa: RUF012 -- the suite's own way


@needs_torch
class TestWhisperWithLocalAgreement(BackendConformance):
    """Every rule of both tiers."""

    backend = "whisper"
    model = "digits"
    options = {"policy": "local-agreement"}  # noqa: RUF012 -- the suite's own way
