"""A process that used MLX in its own threads ends cleanly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wlk_core.registry import Registry, missing_requirements

SCRIPT = """
import sys
from threading import Thread

import numpy as np
from wlk_core import load_backend

def run():
    stream = load_backend(sys.argv[1], "digits").create_processor()
    stream.insert_audio_chunk(np.zeros(16_000, np.float32))
    stream.finish()

threads = [Thread(target=run) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["voxtral-mlx", "qwen3-mlx-simul", "mlx-whisper"])
def test_threads_that_load_and_decode_abort_no_process(backend):
    """MLX's compiled functions and random numbers can abort about every second process at exit."""
    specs = {spec.name: spec for spec in Registry().specs()}
    if backend not in specs or missing_requirements(specs[backend]):
        pytest.skip(f"{backend} is not installed")
    command = [sys.executable, "-c", SCRIPT, backend]
    for _ in range(3):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
