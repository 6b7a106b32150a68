"""Load the weights of a checkpoint with transformers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import VoxtralRealtimeForConditionalGeneration

from wlk_frameworks.checkpoints import read_json_table
from wlk_frameworks.transformers import load_checked
from wlk_voxtral.sizes import check_config
from wlk_voxtral_hf.checkpoint import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    import torch


def load_model(directory: Path, *, device: torch.device, dtype: torch.dtype) -> Any:
    """Return a Voxtral Realtime model for inference; raises as `load_checked`."""
    path = directory / CONFIG
    return load_checked(
        VoxtralRealtimeForConditionalGeneration,
        directory,
        read_json_table(path),
        kind="a Voxtral Realtime model",
        check=partial(check_config, path=path),
        device=device,
        dtype=dtype,
        alternative="another device, or a quantized model on the backend voxtral-mlx",
        allows_more=True,
    )
