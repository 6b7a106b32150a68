"""One stream of commands for all threads that send work to an MLX device."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
import threading
from typing import TYPE_CHECKING

import mlx.core as mx

from wlk_core import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Commands", "commands_of"]


class Commands:
    """
    A stream of MLX commands that any thread may use, one at a time.

    The default stream of a thread is that thread's alone and is never given back (mlx 0.32), while
    a stream of audio is served from whatever thread calls.  So all share one, and a lock with it;
    the device runs one command at a time anyway.  `is_gpu` tells what it is.
    """

    def __init__(self, device: mx.DeviceType) -> None:
        self.is_gpu = device == mx.gpu
        self._lock = threading.RLock()
        self._stream = mx.new_thread_unsafe_stream(device)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """
        Wait for the device; what is computed inside runs on it.

        Results have to be evaluated, or sent off to be, before leaving: they would be in somebody
        else's turn.
        """
        with self._lock, mx.stream(self._stream):
            yield


def commands_of(device: str) -> Commands:
    """
    Return the stream of commands of *device*: auto, cpu or gpu.

    Raises:
        BackendUnavailable: there is no such device here.

    """
    if device == "gpu" and not mx.is_available(mx.gpu):
        raise BackendUnavailable(
            "device=gpu was asked for and MLX has none here: it takes an Apple Silicon Mac, or "
            "Linux with an NVIDIA driver and: pip install 'wlk-qwen3-simul[mlx-cuda]'; or leave "
            "the device out"
        )
    return _commands(mx.default_device().type if device == "auto" else mx.DeviceType[device])


@cache
def _commands(device: mx.DeviceType) -> Commands:
    # For the life of the process: MLX never gives a stream back.
    return Commands(device)
