"""One queue of MLX commands for every thread of the process."""

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
    A stream of MLX commands shared by all threads, one at a time.

    The default stream of a thread is known to that thread alone, and MLX keeps it for ever (mlx
    0.32).  Audio is served by whatever thread calls, so everything runs on one stream that is
    locked here; a device does one thing at a time anyway.
    """

    def __init__(self, device: mx.DeviceType) -> None:
        self._lock = threading.Lock()
        self._stream = mx.new_thread_unsafe_stream(device)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the device; whatever is computed inside must be evaluated inside too."""
        with self._lock, mx.stream(self._stream):
            yield


def commands_of(device: str) -> Commands:
    """
    Return the commands of a device: auto, cpu or gpu.

    Raises:
        BackendUnavailable: there is no such device here.

    """
    if device == "gpu" and not mx.is_available(mx.gpu):
        raise BackendUnavailable(
            "device=gpu was asked for and MLX sees none; it takes an Apple Silicon Mac, or on "
            "Linux an NVIDIA driver and: pip install 'wlk-voxtral-mlx[cuda]'; or leave it out"
        )
    return _commands(mx.default_device().type if device == "auto" else mx.DeviceType[device])


@cache  # for the life of the process: MLX never gives a stream back
def _commands(device: mx.DeviceType) -> Commands:
    return Commands(device)
