"""Whisper on torch with the digits checkpoint keeps the contract, with either policy."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

from wlk_conformance import BackendConformance


class TestWhisperWithAlignAtt(BackendConformance):
    """Every rule of both tiers."""

    backend = "whisper"
    model = "digits"
    options = {"policy": "alignatt"}  # noqa: RUF012 -- the suite's own way


class TestWhisperWithLocalAgreement(BackendConformance):
    """Every rule of both tiers."""

    backend = "whisper"
    model = "digits"
    options = {"policy": "local-agreement"}  # noqa: RUF012 -- the suite's own way
