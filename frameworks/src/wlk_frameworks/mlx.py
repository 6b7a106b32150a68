"""Choose MLX's device and dtype, query its memory, and share one MLX stream among threads."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import cache
import logging
import math
import threading
from typing import TYPE_CHECKING, TypeVar

import mlx.core as mx

from wlk_core.errors import BackendUnavailable
from wlk_frameworks.memory import physical_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}

# What MLX may keep of freed memory, in bytes and as a part of the memory in use: more than a pass
# of any model needs again.
KEPT_BYTES = 64 * 2**20
KEPT_PART = 1 / 8

_OPENING = threading.Lock()
_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


class SharedStream:
    """An MLX stream that any thread may use, one thread at a time; see `shared_stream`."""

    # MLX gives each thread a default stream, on which only that thread can evaluate and which is
    # never freed: on the CPU, every thread that has used MLX leaves a worker thread behind (mlx
    # 0.32).  Any thread may process audio, so all threads share one stream and its lock.  This
    # costs nothing, because a device runs one command at a time anyway.

    def __init__(self, device: mx.DeviceType) -> None:
        self.is_gpu: bool = device == mx.gpu
        self.device = "gpu" if self.is_gpu else "cpu"  #: the kind of its device
        self._lock = threading.RLock()
        self._loader: asyncio.AbstractEventLoop | None = None  # runs in a thread that never ends
        self._stream = mx.new_thread_unsafe_stream(device)
        with self.acquire():
            mx.eval(mx.zeros(1))  # RuntimeError if MLX has no back end

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """
        Wait for the stream and make it the default of this thread.

        The thread that holds the stream may acquire it again.  Results must be evaluated, or
        submitted with `mlx.core.async_eval`, before the stream is released: a lazy array is
        computed by whichever thread uses it first, and that one may not hold the stream.
        """
        with self._lock, mx.stream(self._stream):
            yield
            _return_unused_memory()

    def load(self, make: Callable[[], T]) -> T:
        """Call *make*, which builds modules, on this stream and its thread; return its result."""
        # Modules start with random weights.  A thread that has drawn random numbers can crash the
        # process if both end at the same time (mlx 0.32, ml-explore/mlx#4110), and the caller's
        # thread might.  This one never ends: even a thread that was joined can still be ending.
        with _OPENING:
            if self._loader is None:
                self._loader = asyncio.new_event_loop()
                run = self._loader.run_forever
                threading.Thread(target=run, name="wlk MLX loader", daemon=True).start()

        async def load() -> T:
            with self.acquire():
                return make()

        return asyncio.run_coroutine_threadsafe(load(), self._loader).result()

    def warn_of_quantized(self, model: str) -> None:
        """Warn that quantized weights are slow, if this stream runs on a CPU."""
        if not self.is_gpu:
            _LOGGER.warning(
                "%s is quantized, and MLX runs quantized models slowly on a CPU, large ones far "
                "slower than real time; choose a model that is not quantized, or a GPU",
                model,
            )


def shared_stream(device: str, *, install_hint: str) -> SharedStream:
    """
    Return the stream that all threads share on *device*: auto, cpu or gpu, as in the option.

    Raises BackendUnavailable if MLX has no such device or cannot compute on it.  Its message
    includes *install_hint*, the command that installs MLX for an NVIDIA GPU.
    """
    if device == "gpu" and not mx.is_available(mx.gpu):
        raise BackendUnavailable(
            "MLX has no device gpu here: it needs an Apple Silicon Mac, or Linux with an NVIDIA "
            f"driver and: {install_hint}; or leave the option device out"
        )
    kind = mx.default_device().type if device == "auto" else mx.DeviceType[device]
    try:
        with _OPENING:  # `cache` lets two first calls run, and each would get a lock of its own
            return _stream_of(kind)
    except RuntimeError as error:
        raise BackendUnavailable(
            f"MLX is installed but cannot compute on its device {kind.name}: {error}; "
            f"install it with a back end: {install_hint}"
        ) from error


_stream_of = cache(SharedStream)  # until the process ends, because MLX never frees a stream


def choose_dtype(
    name: str, *, is_gpu: bool, declared: str | None = None, accelerated: mx.Dtype = mx.float16
) -> mx.Dtype:
    """
    Return the dtype called *name*, one of DTYPES or "auto".

    "auto" is the dtype *declared* by the checkpoint if it is in DTYPES, else float32 on the CPU and
    *accelerated* on a GPU.
    """
    fallback = accelerated if is_gpu else mx.float32
    return DTYPES.get(declared or "", fallback) if name == "auto" else DTYPES[name]


def _return_unused_memory() -> None:
    # MLX keeps freed memory for requests of about the same size, up to a limit that is nearly all
    # memory of a GPU.  What grows with a stream, such as scores and caches of attention, asks for
    # new sizes all the time, and would leave gigabytes that nothing asks for again.
    if mx.get_cache_memory() > max(KEPT_BYTES, KEPT_PART * mx.get_active_memory()):
        mx.clear_cache()


def available_memory(device: str) -> int | None:
    """Return the bytes available on the MLX device cpu or gpu, None if unknown."""
    info = mx.device_info(mx.DeviceType[device])
    keys = ("max_recommended_working_set_size", "total_memory", "memory_size")  # one per back end
    return next((int(info[key]) for key in keys if key in info), physical_memory())


# MLX's own activations are compiled, and the thread state of compiled functions can abort the
# process if the thread and the process end at the same time (mlx 0.32, ml-explore/mlx#4110).
def gelu(x: mx.array) -> mx.array:
    """Return the exact GELU; not compiled."""
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def silu(x: mx.array) -> mx.array:
    """Return x times its sigmoid; not compiled, like `gelu`."""
    return x * mx.sigmoid(x)
