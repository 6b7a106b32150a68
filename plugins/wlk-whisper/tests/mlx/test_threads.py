"""MLX from any thread: MLX's own streams belong to the thread that made them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

CODE = """if True:
    import threading
    from wlk_core import load_backend

    def run():
        with load_backend("mlx-whisper", "digits") as backend:
            backend.warmup()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.slow
def test_a_process_ends_cleanly_after_threads_that_ran_the_model():
    """Threads that end together with the process do not crash it."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
