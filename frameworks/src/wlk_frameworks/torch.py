"""Choose torch's device and dtype, query its memory, and run forward passes."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
import threading
from typing import TYPE_CHECKING, Any

import torch

from wlk_core.errors import BackendUnavailable
from wlk_frameworks.devices import parse_device
from wlk_frameworks.memory import physical_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

_CHECKS = {
    "cuda": "check the driver with nvidia-smi and the build of torch with "
    "python -c 'import torch; print(torch.version.cuda)'",
    "mps": "it needs macOS 12.3 or later on Apple Silicon",
}


def choose_device(name: str) -> torch.device:
    """
    Return the device called *name*: cuda, mps or cpu, or with auto the first that is present.

    cuda:N is one of several GPUs.  Raises BackendUnavailable if torch has no such device.
    """
    gpus = torch.cuda.device_count()
    kind, _ = parse_device(name, gpus=gpus, framework=f"torch {torch.__version__}")
    is_present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if kind == "auto":
        return torch.device(next(device for device, present in is_present.items() if present))
    if not is_present[kind]:
        raise BackendUnavailable(
            f"torch {torch.__version__} has no device {name} here; {_CHECKS[kind]}, or leave "
            "the option device out"
        )
    return torch.device(name)


def choose_dtype(
    name: str,
    *,
    device: torch.device,
    declared: str | None = None,
    accelerated: torch.dtype = torch.float16,
) -> torch.dtype:
    """
    Return the dtype called *name*, one of DTYPES or "auto".

    "auto" is the dtype *declared* by the checkpoint if it is in DTYPES, else bfloat16 on a CPU with
    instructions for it, float32 on any other CPU, and *accelerated* elsewhere.
    """
    fallback = accelerated
    if device.type == "cpu":
        # With these instructions, matrix products take a quarter of the time of float32; without
        # them, bfloat16 is converted for each product.  Older torch releases do not report them.
        features: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
        is_fast = features.get("avx512_bf16") or features.get("amx_bf16")
        fallback = torch.bfloat16 if is_fast else torch.float32
    return DTYPES.get(declared or "", fallback) if name == "auto" else DTYPES[name]


def available_memory(device: torch.device) -> int | None:
    """Return the bytes available to a model on *device*, None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory())
    return physical_memory()


_CUDA: Any = torch.backends.cuda  # only part of it is annotated


class _CudnnAttention:
    """torch's switch for the attention of cuDNN, which is off while a forward pass runs."""

    # The switch is one for all threads of the process, with torch.nn.attention.sdpa_kernel too.
    # Passes in several threads overlap, so they are counted and the last one restores it: if each
    # restored what it found, one of two overlapping passes would leave it off.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes = 0
        self._was_enabled = True

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """Keep cuDNN's attention off, and restore the switch once no pass needs it off."""
        with self._lock:
            if self._passes == 0:
                self._was_enabled = _CUDA.cudnn_sdp_enabled()
                _CUDA.enable_cudnn_sdp(False)
            self._passes += 1
        try:
            yield
        finally:
            with self._lock:
                self._passes -= 1
                if self._passes == 0:
                    _CUDA.enable_cudnn_sdp(self._was_enabled)


_CUDNN_ATTENTION = _CudnnAttention()


@contextmanager
def inference(device: torch.device) -> Iterator[None]:
    """
    Run forward passes on *device* without gradients and, on CUDA, without cuDNN's attention.

    cuDNN makes a new plan for every number of keys, which changes at each step of a stream: on an
    H100, planning took longer than all the rest of a step of Voxtral 4B.
    """
    attention = _CUDNN_ATTENTION.switched_off() if device.type == "cuda" else nullcontext()
    with torch.inference_mode(), attention:
        yield
