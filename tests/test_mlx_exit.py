"""A process that used MLX in threads of the user ends cleanly."""

from __future__ import annotations

from importlib.util import find_spec
import subprocess
import sys

import pytest

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
@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize(
    ("backend", "package"),
    [
        ("voxtral-mlx", "wlk_voxtral_mlx"),
        ("qwen3-mlx-simul", "mlx_qwen3_asr"),
        ("mlx-whisper", "mlx_whisper"),
    ],
)
def test_threads_that_load_and_decode_abort_no_process(backend, package, attempt):
    """Compiled functions and random numbers of MLX abort about every second process at its end."""
    if find_spec("mlx") is None or find_spec(package) is None:
        pytest.skip(f"needs mlx and {package}")
    command = [sys.executable, "-c", SCRIPT, backend]
    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr), f"attempt {attempt}"
