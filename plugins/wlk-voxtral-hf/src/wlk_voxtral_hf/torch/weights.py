"""Load a checkpoint with transformers, and refuse one that is incomplete or damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

from wlk_core.errors import ModelNotFoundError
from wlk_core.untrusted import reason
from wlk_frameworks.checkpoints import read_json_table, read_safetensors_headers, weight_names
from wlk_frameworks.memory import out_of_memory, require_memory
from wlk_frameworks.torch import available_memory
from wlk_frameworks.transformers import quiet_loading
from wlk_voxtral.sizes import check_config
from wlk_voxtral_hf.checkpoint import CONFIG

if TYPE_CHECKING:
    from pathlib import Path


def load_model(directory: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """
    Load a Voxtral Realtime model for inference.

    Raises:
        ModelNotFoundError: the files are damaged, or their weights do not fit the model.
        BackendUnavailable: the model does not fit into memory.

    """
    name = f"{directory} in {str(dtype).removeprefix('torch.')}"
    smaller = "" if dtype.itemsize < torch.float32.itemsize else "dtype=bfloat16, "
    remedy = f"choose {smaller}another device, or a quantized model on the backend voxtral-mlx"
    tensors = read_safetensors_headers(directory / file for file in weight_names(directory))
    needed = sum(tensor.size for tensor in tensors.values()) * dtype.itemsize
    available = available_memory(device)
    require_memory(name, needed=needed, available=available, device=device.type, remedy=remedy)
    path = directory / CONFIG
    table = read_json_table(path)
    check_config(table, tensors, path=path)
    try:
        # transformers accepts several names for a size, and the last one in the file counts.
        check_config(VoxtralRealtimeConfig.from_dict(table).to_dict(), tensors, path=path)
        with quiet_loading():
            loaded: Any = VoxtralRealtimeForConditionalGeneration.from_pretrained(
                directory,
                dtype=dtype,
                local_files_only=True,
                output_loading_info=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # _check_complete reports them in one line
            )
        model = loaded[0].to(device)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise out_of_memory(
            name, needed=needed, available=available, device=device.type, remedy=remedy
        ) from error
    except Exception as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a Voxtral Realtime model: {reason(error)}; "
            "convert or pull it again"
        ) from error
    _check_complete(directory, loaded[1])
    return model.eval().requires_grad_(False)


def _check_complete(directory: Path, report: dict[str, Any]) -> None:
    """Refuse a model with missing weights, because transformers fills them with random values."""
    missing = sorted(report["missing_keys"])
    mismatched = sorted(report["mismatched_keys"])
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        fault = f"it lacks {missing[0]}{more}"
    elif mismatched:
        name, shape, expected = mismatched[0]
        fault = f"{name} has the shape {tuple(shape)}, expected {tuple(expected)}"
    else:
        return
    raise ModelNotFoundError(
        f"{directory} is in the layout of transformers and could not be loaded: {fault}; "
        "pull the model again"
    )
