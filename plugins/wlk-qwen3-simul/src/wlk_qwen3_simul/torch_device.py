"""Where torch runs: one check for all that load a model on it."""

from __future__ import annotations

import torch

from wlk_core import BackendUnavailable, OptionError
from wlk_qwen3_simul.specs import TORCH_DEVICES

__all__ = ["device_of"]


def device_of(asked: str) -> torch.device:
    """
    Return the device of one of TORCH_DEVICES; auto is the first of them that is here, the CPU last.

    Raises:
        OptionError: it is none of them.
        BackendUnavailable: there is none here.

    """
    if asked not in TORCH_DEVICES:
        raise OptionError(f"expected a device, one of {', '.join(TORCH_DEVICES)}; got {asked!r}")
    has = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if asked == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if has[name]))
    if not has[asked]:
        check = {
            "cuda": "check the driver with nvidia-smi and the build of torch with "
            "python -c 'import torch; print(torch.version.cuda)'",
            "mps": "it needs macOS 12.3 or later on Apple Silicon",
        }
        raise BackendUnavailable(
            f"device={asked} was asked for and torch {torch.__version__} sees none; "
            f"{check[asked]}, or leave the device out"
        )
    return torch.device(asked)
