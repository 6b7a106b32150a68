"""MLX from any thread: MLX's own streams belong to the thread that made them."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys
import threading

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from wlk_core.frameworks.mlx import shared_stream  # noqa: E402 -- needs MLX
from wlk_whisper.mlx.checkpoint import load_model  # noqa: E402 -- needs MLX
from wlk_whisper.mlx.network import MlxNetwork  # noqa: E402 -- needs MLX
from wlk_whisper_digits import checkpoint_directory  # noqa: E402 -- as above

DIGITS = checkpoint_directory()
TOKENS = (50258, 50259, 50359, 50363, 734, 1081, 734)
STREAM = shared_stream("cpu", install_hint="")
TASKS = Path("/proc/self/task")  # a directory for every thread of the process, on Linux


@pytest.fixture(scope="module")
def network():
    """Return the digits, loaded on a thread that has ended."""

    def load():
        return MlxNetwork(
            load_model(DIGITS, dtype=mx.float32)[0],
            alignment_heads=((2, 0), (3, 3)),
            stream=STREAM,
            dtype=mx.float32,
        )

    return on_new_thread(load)


def on_new_thread(call):
    """Return the result of *call* on a thread of its own."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(60)
    assert results, "the call raised, or did not return"
    return results[0]


def speculative_decode(network, seed, call=lambda step: step()):
    """Return logits and attention of one text, each step made through *call*."""
    noise = np.random.default_rng(seed).normal(0, 0.5, (80, 200)).astype(np.float32)
    encoder_output = call(lambda: network.encode(noise))
    decoder = call(lambda: network.new_decoder(encoder_output))
    outputs = [call(lambda: decoder.forward(np.array([TOKENS[:4]]), output_attention=True))]
    call(lambda: decoder.reorder_cache([0, 0]))
    outputs += [
        call(
            lambda token=token: decoder.forward(np.array([[token], [token]]), output_attention=True)
        )
        for token in TOKENS[4:]
    ]
    return [array for output in outputs for array in (output.logits, output.cross_attention)]


@pytest.mark.slow
@pytest.mark.skipif(not TASKS.is_dir(), reason="threads of MLX are visible on Linux only")
def test_threads_that_end_leave_no_threads_of_mlx(network):
    """A server that serves each call from a new thread does not accumulate threads."""
    speculative_decode(network, 1, call=on_new_thread)
    before = len(list(TASKS.iterdir()))
    for seed in range(5):
        speculative_decode(network, seed, call=on_new_thread)

    # A joined thread may still be ending, and pools of other libraries may grow; a leak is a
    # thread for every call.
    assert len(list(TASKS.iterdir())) < before + 5


@pytest.mark.slow
def test_a_process_ends_cleanly_after_threads_that_ran_the_model():
    """Threads that end together with the process do not crash it."""
    code = """if True:
        import threading
        import numpy as np
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

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
