"""The one stream of commands that every thread sends to an MLX device."""

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

    MLX gives each thread a default stream, which only that thread can evaluate on and which it
    never gives back: on the CPU every thread that ever touched MLX leaves a worker thread behind
    (mlx 0.32).  Streams of audio are served from whatever thread calls, so all of them share one
    stream of commands, of the kind that MLX leaves to its users to lock.  A device runs one
    command at a time anyway.  `is_gpu` tells whether it is one.
    """

    def __init__(self, device: mx.DeviceType) -> None:
        self.is_gpu = device == mx.gpu
        self._lock = threading.Lock()
        self._stream = mx.new_thread_unsafe_stream(device)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """
        Wait for the device; what is computed inside runs on it.

        Results have to be evaluated before leaving: what is lazy would be computed in a turn of
        somebody else's.
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
            "Linux with an NVIDIA driver and: pip install 'wlk-whisper[mlx-cuda]'; or leave the "
            "device out"
        )
    return _commands(mx.default_device().type if device == "auto" else mx.DeviceType[device])


@cache
def _commands(device: mx.DeviceType) -> Commands:
    # For the life of the process: MLX never gives a stream back.
    return Commands(device)
