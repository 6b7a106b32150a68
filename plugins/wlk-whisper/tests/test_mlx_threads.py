"""MLX from any thread: its own streams of commands belong to the thread that made them."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys
import threading

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from wlk_core import BackendUnavailable  # noqa: E402 -- behind the one that may skip
import wlk_whisper  # noqa: E402 -- behind the one that may skip
from wlk_whisper.mlx_checkpoint import load_model  # noqa: E402 -- needs MLX
from wlk_whisper.mlx_device import commands_of  # noqa: E402 -- needs MLX
from wlk_whisper.mlx_network import MlxNetwork  # noqa: E402 -- needs MLX

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "mlx"
TOKENS = (50258, 50259, 50359, 50363, 734, 1081, 734)
TASKS = Path("/proc/self/task")  # a folder for every thread of the process, on Linux


@pytest.fixture(scope="module")
def network():
    """Return the digits, loaded on a thread that is gone."""

    def load():
        return MlxNetwork(
            load_model(DIGITS, dtype="float32").whisper,
            alignment_heads=((2, 0), (3, 3)),
            commands=commands_of("cpu"),
            dtype=mx.float32,
        )

    return on_fresh_thread(load)


def on_fresh_thread(call):
    """Return what *call* gives on a thread of its own."""
    given = []
    thread = threading.Thread(target=lambda: given.append(call()), daemon=True)
    thread.start()
    thread.join(60)
    assert given, "the call raised, or did not return"
    return given[0]


def steps(network, seed, call=lambda step: step()):
    """Return the logits and looks of one decoder run, each step made through *call*."""
    noise = np.random.default_rng(seed).normal(0, 0.5, (80, 200)).astype(np.float32)
    encoded = call(lambda: network.encode(noise))
    run = call(lambda: network.begin(encoded))
    heard = [call(lambda: run.forward(np.array([TOKENS[:4]]), attend=True))]
    call(lambda: run.reorder([0, 0]))
    heard += [
        call(lambda token=token: run.forward(np.array([[token], [token]]), attend=True))
        for token in TOKENS[4:]
    ]
    return [array for one in heard for array in (one.logits, one.attention)]


@pytest.mark.slow
def test_every_call_may_come_from_a_new_thread(network):
    """Nothing lazy is left over for a thread that cannot compute it."""
    solo = steps(network, 1)
    apart = steps(network, 1, call=on_fresh_thread)

    for one, other in zip(solo, apart, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_two_threads_at_once_equal_two_alone(network):
    """Runs that take turns on one model do not mix."""
    solo = {seed: steps(network, seed) for seed in (1, 2)}
    together = {}
    begin = threading.Barrier(2)

    def listen(seed):
        begin.wait(60)
        together[seed] = steps(network, seed)

    threads = [threading.Thread(target=listen, args=(seed,), daemon=True) for seed in solo]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    for seed, expected in solo.items():
        for one, other in zip(expected, together[seed], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.skipif(not TASKS.is_dir(), reason="threads of MLX are seen on Linux only")
def test_threads_that_are_gone_leave_none_of_mlx_behind(network):
    """A server that serves each call from a new thread does not collect them."""
    steps(network, 1, call=on_fresh_thread)
    before = len(list(TASKS.iterdir()))
    for seed in range(5):
        steps(network, seed, call=on_fresh_thread)

    # A thread that was joined may be on its way out, and pools of other libraries may grow; a leak
    # is a thread for every call.
    assert len(list(TASKS.iterdir())) < before + 5


@pytest.mark.slow
def test_a_process_ends_well_after_threads_that_ran_the_model():
    """Threads that end with the process leave nothing behind that takes it down."""
    code = """if True:
        import threading
        import numpy as np
        from wlk_core import load_backend

        def listen():
            with load_backend("mlx-whisper", "digits") as backend:
                backend.warmup()

        threads = [threading.Thread(target=listen) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_named():
    """The message tells what it takes."""
    with pytest.raises(BackendUnavailable, match=r"device=gpu.*mlx-cuda"):
        commands_of("gpu")
