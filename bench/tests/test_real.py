from __future__ import annotations

import pytest

from wlk_bench.cli import run_command
from wlk_bench.results import read_result
from wlk_core.errors import BackendUnavailable
from wlk_core.registry import Registry, missing_requirements

BACKEND = "faster-whisper"


@pytest.fixture(autouse=True)
def installed():
    """Skip where the backend is not installed."""
    try:
        missing = missing_requirements(Registry().spec(BACKEND))
    except BackendUnavailable as error:
        pytest.skip(str(error))
    if missing:
        pytest.skip(f"{BACKEND} lacks {', '.join(missing)}")


@pytest.mark.slow
def test_a_real_backend_is_measured_on_digits(tmp_path):
    """One command measures errors, latency, work and word times of a model."""
    status = run_command(
        ["run", BACKEND, "--model", "digits", "--limit", "1", "--output", str(tmp_path)]
    )

    summary = read_result(tmp_path)["summary"]
    assert status == 0
    assert summary["wer"]["rate"] <= 0.1
    assert 0.0 < summary["latency"]["emission"]["unaware"]["p50"] < 3.0
    assert summary["latency"]["coverage"] >= 0.9
    assert summary["work"]["encoder_frames"] > 0
    assert summary["word_times"]["start"]["median"] <= 0.1
