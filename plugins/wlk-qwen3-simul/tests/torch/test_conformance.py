"""Qwen3-ASR on torch with the digits checkpoint complies with the contract under either policy."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_conformance import BackendConformance


class TestQwen3WithAlignAtt(BackendConformance):
    """The backend passes every rule of both tiers."""

    backend = "qwen3-simul"
    model = "digits"
    options = {"policy": "alignatt"}  # noqa: RUF012 -- the suite's own way


class TestQwen3WithLocalAgreement(BackendConformance):
    """The backend passes every rule of both tiers."""

    backend = "qwen3-simul"
    model = "digits"
    options = {"policy": "local-agreement"}  # noqa: RUF012 -- the suite's own way
