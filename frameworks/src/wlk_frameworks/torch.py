"""Choose torch's device and dtype, and query its memory."""

from __future__ import annotations

import torch

from wlk_core.errors import BackendUnavailable
from wlk_frameworks.memory import physical_memory

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

_CHECKS = {
    "cuda": "check the driver with nvidia-smi and the build of torch with "
    "python -c 'import torch; print(torch.version.cuda)'",
    "mps": "it needs macOS 12.3 or later on Apple Silicon",
}


def choose_device(name: str) -> torch.device:
    """
    Return the device called *name*: cuda, mps or cpu, or with auto the first that is present.

    Raises BackendUnavailable if torch has no such device.
    """
    is_present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device, present in is_present.items() if present)
    if not is_present[name]:
        raise BackendUnavailable(
            f"torch {torch.__version__} has no device {name} here; {_CHECKS[name]}, or leave "
            "the option device out"
        )
    if name == "cuda":
        # cuDNN's attention makes a new plan for every number of keys, which changes at each step:
        # on an H100, planning took longer than all the rest of a step of Voxtral 4B.
        torch.backends.cuda.enable_cudnn_sdp(False)
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
