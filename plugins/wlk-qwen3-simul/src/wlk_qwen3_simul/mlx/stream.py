"""One MLX stream for all threads that send work to a device."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
import threading
from typing import TYPE_CHECKING

import mlx.core as mx

from wlk_core import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SharedStream", "shared_stream"]


class SharedStream:
    """
    An MLX stream that any thread may use, one at a time.

    MLX 0.32 gives each thread a default stream of its own and never frees it, while an audio stream
    may be served by any thread.  All threads therefore share one stream and its lock; the device
    runs one command at a time anyway.
    """

    def __init__(self, device: mx.DeviceType) -> None:
        self.is_gpu = device == mx.gpu  #: whether the device is a GPU
        self._lock = threading.RLock()
        self._stream = mx.new_thread_unsafe_stream(device)

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """
        Wait for the device and compute on it inside the block.

        Evaluate results, asynchronously at least, before leaving the block: later they would run
        while another thread holds the stream.
        """
        with self._lock, mx.stream(self._stream):
            yield


def shared_stream(device: str) -> SharedStream:
    """
    Return the stream of *device*: auto, cpu or gpu.

    Raises:
        BackendUnavailable: the machine has no such device.

    """
    if device == "gpu" and not mx.is_available(mx.gpu):
        raise BackendUnavailable(
            "device=gpu was requested and MLX finds none here: it takes an Apple Silicon Mac, or "
            "Linux with an NVIDIA driver and: pip install 'wlk-qwen3-simul[mlx-cuda]'; or leave "
            "the device out"
        )
    return _stream(mx.default_device().type if device == "auto" else mx.DeviceType[device])


@cache
def _stream(device: mx.DeviceType) -> SharedStream:
    # Cached for the life of the process, because MLX never frees a stream.
    return SharedStream(device)
