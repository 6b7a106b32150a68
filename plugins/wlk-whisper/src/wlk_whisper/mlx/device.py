"""The MLX stream that all threads share."""

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
    An MLX stream that any thread may use, one thread at a time.

    MLX gives each thread a default stream, which only that thread can evaluate on and which MLX
    never frees: on the CPU every thread that ever used MLX leaves a worker thread (mlx 0.32).
    Audio streams are served from whatever thread calls, so all of them share one MLX stream of the
    kind that MLX leaves to its users to lock.  A device runs one command at a time anyway.
    """

    def __init__(self, device: mx.DeviceType) -> None:
        self.is_gpu = device == mx.gpu
        self._lock = threading.Lock()
        self._stream = mx.new_thread_unsafe_stream(device)

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """
        Wait for the device; what is computed inside runs on it.

        Results must be evaluated before leaving, because a lazy result would be computed while
        another thread owns the stream.
        """
        with self._lock, mx.stream(self._stream):
            yield


def shared_stream(device: str) -> SharedStream:
    """
    Return the shared stream of *device*: auto, cpu or gpu.

    Raises:
        BackendUnavailable: the device is missing.

    """
    if device == "gpu" and not mx.is_available(mx.gpu):
        raise BackendUnavailable(
            "device=gpu is not available in MLX here: it needs an Apple Silicon Mac, or Linux with "
            "an NVIDIA driver and: pip install 'wlk-whisper[mlx-cuda]'; or leave the device out"
        )
    return _stream_of(mx.default_device().type if device == "auto" else mx.DeviceType[device])


@cache
def _stream_of(device: mx.DeviceType) -> SharedStream:
    # Kept for the life of the process, because MLX never frees a stream.
    return SharedStream(device)
