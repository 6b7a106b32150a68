from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import threading
from typing import Any

import pytest

from wlk_core.errors import BackendUnavailable

mx = pytest.importorskip("mlx.core", exc_type=ImportError)

from wlk_frameworks import mlx  # noqa: E402 -- needs MLX
from wlk_frameworks.mlx import choose_dtype, shared_stream  # noqa: E402

HINT = "pip install 'wlk-toy[mlx-cuda]'"


def stream() -> Any:
    """Return the shared stream of the CPU."""
    return shared_stream("cpu", install_hint=HINT)


def test_all_callers_share_one_stream_of_a_device() -> None:
    """The stream knows its kind of device, and auto is the default device of MLX."""
    assert stream() is stream()
    assert (stream().device, stream().is_gpu) == ("cpu", False)
    assert mx.default_device().type.name == shared_stream("auto", install_hint=HINT).device


def test_any_thread_can_use_what_another_one_computed() -> None:
    """Arrays can be passed between threads, because all threads evaluate on one stream."""

    def double(array: Any) -> Any:
        with stream().acquire():
            result = 2 * array
            mx.eval(result)
            return result

    with stream().acquire():
        array = mx.ones(4)
        mx.eval(array)
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            array = pool.submit(double, array).result(120)

    assert array.tolist() == [8.0] * 4


def test_threads_do_not_overlap() -> None:
    """While one thread holds the stream, another one waits for it."""
    order = []
    held, waiting = threading.Event(), threading.Event()

    def second() -> None:
        waiting.set()
        with stream().acquire():
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with stream().acquire():
            future = pool.submit(second)
            assert waiting.wait(120)
            held.wait(0.05)  # in this time the thread would take a stream without a lock
            order.append("first")
        future.result(120)

    assert order == ["first", "second"]


def test_models_are_loaded_by_one_thread_that_never_ends() -> None:
    """A thread that ends together with the process could crash it."""
    first, second = (stream().load(threading.current_thread) for _ in range(2))

    assert first is second
    assert (first.is_alive(), first.daemon) == (True, True)
    assert first is not threading.current_thread()


def test_a_load_that_fails_raises_its_error() -> None:
    """The next one succeeds."""

    def fail() -> None:
        raise ModuleNotFoundError("no such architecture")

    with pytest.raises(ModuleNotFoundError, match="no such architecture"):
        stream().load(fail)
    assert stream().load(lambda: "a model") == "a model"


def test_a_missing_gpu_makes_the_backend_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message includes the hint of the plugin."""
    monkeypatch.setattr(mx, "is_available", lambda _device: False)

    with pytest.raises(BackendUnavailable, match=r"no device gpu here: .*wlk-toy\[mlx-cuda\]"):
        shared_stream("gpu", install_hint=HINT)


def test_an_mlx_that_computes_nothing_makes_the_backend_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Linux the bare wheel of MLX has no back end."""

    def fail(_array: Any) -> None:
        raise RuntimeError("no back end")

    monkeypatch.setattr(mx, "eval", fail)
    mlx._stream_of.cache_clear()

    with pytest.raises(BackendUnavailable, match="cannot compute on its device cpu: no back end"):
        stream()


@pytest.mark.parametrize(
    ("name", "is_gpu", "declared", "expected"),
    [
        ("float16", False, "float32", mx.float16),
        ("auto", False, "bfloat16", mx.bfloat16),
        ("auto", False, None, mx.float32),
        ("auto", True, None, mx.float16),
        ("auto", True, "int8", mx.float16),
    ],
)
def test_the_arithmetic_is_named_or_declared_or_suits_the_device(
    name: str, *, is_gpu: bool, declared: str | None, expected: Any
) -> None:
    """A name comes before the checkpoint, which comes before the default of the device."""
    assert choose_dtype(name, is_gpu=is_gpu, declared=declared) == expected


def test_freed_memory_beyond_what_passes_need_is_returned() -> None:
    """MLX's own limit is lifted; the stream keeps an eighth of the memory in use, or 64 MiB."""
    before = mx.set_cache_limit(2**32)
    try:
        kept = []
        for count in (40, 70):
            with stream().acquire():
                mx.clear_cache()
                arrays = [mx.zeros(2**18) for _ in range(count)]  # 1 MiB each
                mx.eval(arrays)
                del arrays
            kept.append(mx.get_cache_memory() // 2**20)
    finally:
        mx.set_cache_limit(before)

    assert kept == [40, 0]
