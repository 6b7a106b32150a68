"""The choice of a torch device."""

from __future__ import annotations

import torch

from wlk_core import BackendUnavailable, OptionError
from wlk_qwen3_simul.options import TORCH_DEVICES

__all__ = ["choose_device"]


def choose_device(name: str) -> torch.device:
    """
    Return the device called *name*; auto takes the first that is present, the CPU last.

    Raises:
        OptionError: *name* is not one of TORCH_DEVICES.
        BackendUnavailable: the machine has no such device.

    """
    if name not in TORCH_DEVICES:
        raise OptionError(f"expected a device, one of {', '.join(TORCH_DEVICES)}; got {name!r}")
    is_present = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if is_present[kind]))
    if not is_present[name]:
        check = {
            "cuda": "check the driver with nvidia-smi and the build of torch with "
            "python -c 'import torch; print(torch.version.cuda)'",
            "mps": "it needs macOS 12.3 or later on Apple Silicon",
        }
        raise BackendUnavailable(
            f"device={name} was requested and torch {torch.__version__} finds none; "
            f"{check[name]}, or leave the device out"
        )
    return torch.device(name)
