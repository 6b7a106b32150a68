"""Load a checkpoint with transformers, and refuse one that is incomplete or damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import Nemotron3_5AsrForRNNT, NemotronAsrStreamingForRNNT

from wlk_core.errors import ModelNotFoundError
from wlk_core.untrusted import reason
from wlk_frameworks.checkpoints import (
    LayerCount,
    TensorSize,
    check_sizes,
    read_json_table,
    read_safetensors_headers,
    weight_names,
)
from wlk_frameworks.memory import out_of_memory, require_memory
from wlk_frameworks.torch import available_memory
from wlk_frameworks.transformers import quiet_loading

if TYPE_CHECKING:
    from pathlib import Path

CLASSES: dict[str, Any] = {
    "nemotron3_5_asr": Nemotron3_5AsrForRNNT,
    "nemotron_asr_streaming": NemotronAsrStreamingForRNNT,
}
_LAYER = "encoder.layers.0"
SIZES = (
    LayerCount("encoder_config.num_hidden_layers", ("encoder.layers.",)),
    TensorSize("encoder_config.hidden_size", (f"{_LAYER}.norm_out.weight",)),
    TensorSize("encoder_config.intermediate_size", (f"{_LAYER}.feed_forward1.linear1.weight",)),
    TensorSize("encoder_config.num_attention_heads", (f"{_LAYER}.self_attn.bias_u",)),
    TensorSize("encoder_config.num_key_value_heads", (f"{_LAYER}.self_attn.bias_u",)),
    TensorSize("encoder_config.head_dim", (f"{_LAYER}.self_attn.bias_u",), axis=1),
    TensorSize("encoder_config.subsampling_conv_channels", ("encoder.subsampling.conv_in.weight",)),
    TensorSize(
        "encoder_config.conv_kernel_size", (f"{_LAYER}.conv.depthwise_conv.weight",), axis=2
    ),
    TensorSize("vocab_size", ("decoder.embedding.weight",)),
    TensorSize("decoder_hidden_size", ("decoder.embedding.weight",), axis=1),
    TensorSize("prompt_intermediate_size", ("prompt_projector.linear_1.weight",)),
)


def load_model(directory: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """
    Load a Nemotron ASR model for inference.

    Raises:
        ModelNotFoundError: the files are damaged, or their weights do not fit the model.
        BackendUnavailable: the model does not fit into memory.

    """
    name = f"{directory} in {str(dtype).removeprefix('torch.')}"
    smaller = "" if dtype.itemsize < torch.float32.itemsize else "dtype=bfloat16 or "
    remedy = f"choose {smaller}another device"
    tensors = read_safetensors_headers(directory / file for file in weight_names(directory))
    needed = sum(tensor.size for tensor in tensors.values()) * dtype.itemsize
    available = available_memory(device)
    require_memory(name, needed=needed, available=available, device=device.type, remedy=remedy)
    path = directory / "config.json"
    table = read_json_table(path)
    check_sizes(table, SIZES, tensors, path=path)
    try:
        with quiet_loading():
            model, report = CLASSES[table["model_type"]].from_pretrained(
                directory,
                dtype=dtype,
                local_files_only=True,
                output_loading_info=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # _check_complete reports them in one line
            )
        model = model.to(device)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise out_of_memory(
            name, needed=needed, available=available, device=device.type, remedy=remedy
        ) from error
    except Exception as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a Nemotron ASR model: {reason(error)}; "
            "convert or pull it again"
        ) from error
    _check_complete(directory, report)
    return model.eval().requires_grad_(False)


def _check_complete(directory: Path, report: dict[str, Any]) -> None:
    """Refuse weights that do not fit: transformers fills gaps at random, and drops the rest."""
    missing, mismatched = sorted(report["missing_keys"]), sorted(report["mismatched_keys"])
    unexpected = sorted(report["unexpected_keys"])
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        fault = f"they lack {missing[0]}{more}"
    elif mismatched:
        name, shape, expected = mismatched[0]
        fault = f"{name} has the shape {tuple(shape)}, expected {tuple(expected)}"
    elif unexpected:
        fault = f"config.json does not declare {unexpected[0]}"
    else:
        return
    raise ModelNotFoundError(
        f"the weights in {directory} do not fit the model: {fault}; pull the model again"
    )
