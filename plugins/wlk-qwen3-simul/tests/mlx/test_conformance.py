"""Qwen3-ASR on MLX with the digits checkpoint complies with the contract under either policy."""

from __future__ import annotations

import pytest

pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")

from wlk_conformance import BackendConformance


class TestQwen3OnMlxWithAlignAtt(BackendConformance):
    """The backend passes every rule of both tiers."""

    backend = "qwen3-mlx-simul"
    model = "digits"
    options = {"policy": "alignatt"}  # noqa: RUF012 -- the suite's own way


class TestQwen3OnMlxWithLocalAgreement(BackendConformance):
    """The backend passes every rule of both tiers."""

    backend = "qwen3-mlx-simul"
    model = "digits"
    options = {"policy": "local-agreement"}  # noqa: RUF012 -- the suite's own way
