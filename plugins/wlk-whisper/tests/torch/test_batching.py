"""Engine calls of several streams: one run in float32, one run each in half precision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend

PATIENCE = 120.0  # seconds, for events that should come at once
STREAMS = 4


class HeldEngine:
    """Hold the first run of an engine until the calls of all streams are there; record runs."""

    def __init__(self, calls):
        self.batches = calls.batches
        self.sizes = []

    def __call__(self, run):
        """Answer the calls of *run*."""
        self.sizes.append(len(run.numbers))
        if len(self.sizes) == 1:
            with self.batches.arrival:
                assert self.batches.arrival.wait_for(
                    lambda: len(self.batches.waiting) == STREAMS, PATIENCE
                )
        return run.answer()


def transcribe(backend, audio):
    """Return the texts and times of a stream that runs the engine once."""
    driver = StreamDriver(backend.create_processor(policy="long-form", language="en"))
    driver.insert(audio)
    driver.finish()
    return [(token.text, token.start, token.end) for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "sizes"), [("float32", [1, STREAMS - 1]), ("bfloat16", [1] * STREAMS)]
)
def test_waiting_calls_run_together_in_float32_only(dtype, sizes):
    """In half precision each call is answered after its own run; the words never change."""
    recordings = [connected_digits(2, seed=seed).audio for seed in range(STREAMS)]
    with load_backend("whisper", "digits", device="cpu", dtype=dtype) as backend:
        alone = [transcribe(backend, audio) for audio in recordings]
        backend.engine_calls.intercept = engine = HeldEngine(backend.engine_calls)
        with ThreadPoolExecutor(STREAMS) as pool:
            beside = list(pool.map(lambda audio: transcribe(backend, audio), recordings))

    assert engine.sizes == sizes
    assert beside == alone
    assert all(alone)
