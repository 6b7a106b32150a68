"""Load a Qwen3-ASR of either layout on torch, and refuse one that is incomplete or damaged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import reason
from wlk_frameworks.checkpoints import read_json_table, read_safetensors_headers, weight_names
from wlk_frameworks.memory import out_of_memory, require_memory
from wlk_frameworks.torch import available_memory
from wlk_frameworks.transformers import quiet_loading
from wlk_qwen3_simul.engine.config import check_config, read_config_table, ties_head
from wlk_qwen3_simul.engine.frames import SECOND_TOKENS
from wlk_qwen3_simul.torch.network import ATTENTION_NAME, register_attention

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wlk_frameworks.checkpoints import TensorHeader

# From weight names of the original layout to those of transformers, which match no pattern here.
_KEY_MAPPING = {
    r"^thinker\.model\.": "model.language_model.",
    r"^thinker\.audio_tower\.proj1\.": "model.multi_modal_projector.linear_1.",
    r"^thinker\.audio_tower\.proj2\.": "model.multi_modal_projector.linear_2.",
    r"^thinker\.audio_tower\.": "model.audio_tower.",
    r"^thinker\.lm_head\.": "lm_head.",
}
ADAPTER = "adapter_config.json"
# Fields of the original config that the config of transformers lacks.
_DROPPED_FIELDS = ("architectures", "conv_chunksize", "max_source_positions", "model_type")
_MODEL_CLASS: Any = Qwen3ASRForConditionalGeneration  # half of its interface is not annotated


def load_model(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> Qwen3ASRForConditionalGeneration:
    """
    Load the Qwen3-ASR in *directory* onto *device*, with weights of *dtype*.

    The layout is the original one (`thinker.*`) or that of the `-hf` repositories.  The weights
    must fit the config key for key, because a model with random weights would still emit text.

    Raises:
        ModelNotFoundError: the model is missing, damaged or incomplete.
        BackendUnavailable: it does not fit into memory.

    """
    register_attention()
    read_config_table(directory)  # first, so that another model is refused by its type
    tensors = read_safetensors_headers(directory / file for file in weight_names(directory))
    config = read_config(directory, tensors)
    name, remedy = str(directory), "choose a smaller model, or another device"
    needed = sum(tensor.size for tensor in tensors.values()) * dtype.itemsize
    available = available_memory(device)
    require_memory(name, needed=needed, available=available, device=device.type, remedy=remedy)
    try:
        with _explained(directory), quiet_loading():
            model, report = _MODEL_CLASS.from_pretrained(
                directory,
                config=config,
                key_mapping=_KEY_MAPPING,
                dtype=dtype,
                output_loading_info=True,
                use_safetensors=True,
                local_files_only=True,
            )
        model.to(device)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise out_of_memory(
            name, needed=needed, available=available, device=device.type, remedy=remedy
        ) from error
    _check_keys(directory, report)
    model.set_attn_implementation({"audio_config": "sdpa", "text_config": ATTENTION_NAME})
    loaded: Qwen3ASRForConditionalGeneration = model.eval().requires_grad_(False)
    return loaded


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    """Raise the errors of transformers, other than too little memory, in one line."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be loaded: {reason(error)}; pull the model again"
        ) from error


def read_config(
    directory: Path, tensors: Mapping[str, TensorHeader] | None = None
) -> Qwen3ASRConfig:
    """
    Read the config in *directory*, in either layout, and check it against *tensors*, if given.

    The other files that transformers would read by itself are checked as well.

    Raises:
        ModelNotFoundError: it contains no Qwen3-ASR, or its files contradict each other.

    """
    path = directory / "config.json"
    table = read_config_table(directory)
    if "quantization" in table or "quantization_config" in table:
        raise ModelNotFoundError(
            f"the weights in {directory} are quantized, which this backend does not read; use a "
            "model in bfloat16, such as Qwen/Qwen3-ASR-0.6B, or the backend qwen3-mlx-simul for "
            "weights quantized by MLX"
        )
    read_json_table(directory / "generation_config.json")
    if (directory / ADAPTER).exists():
        raise ModelNotFoundError(
            f"{directory} contains {ADAPTER}: an adapter, which this backend does not read; merge "
            "it into the model with peft, or remove the file"
        )
    if tensors is not None:
        check_config(directory, table.get("thinker_config", table), tensors)
    fields = _convert(table) if "thinker_config" in table else table
    try:
        config: Qwen3ASRConfig = Qwen3ASRConfig.from_dict(fields)
    except Exception as error:
        raise ModelNotFoundError(
            f"{path} does not describe a Qwen3-ASR: {reason(error)}; pull the model again"
        ) from error
    if tensors is not None:
        # transformers accepts several names for a size, and the last one in the file counts.
        check_config(directory, config.to_dict(), tensors)
    return config


def _convert(table: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the original layout with the field names of transformers."""
    thinker = table["thinker_config"]
    audio, text = (
        {key: value for key, value in thinker[name].items() if key not in _DROPPED_FIELDS}
        for name in ("audio_config", "text_config")
    )
    theta = text.pop("rope_theta", 1e6)
    # For audio the three position rows of mrope are equal, so it is the plain rotation.
    text.pop("rope_scaling", None)
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    return {
        "audio_config": {
            **audio,
            "model_type": "qwen3_asr_encoder",
            "max_position_embeddings": SECOND_TOKENS,
        },
        "text_config": {**text, "model_type": "qwen3"},
        "audio_token_id": thinker.get("audio_token_id", 151676),
        "tie_word_embeddings": ties_head(table),
    }


def _check_keys(directory: Path, report: dict[str, Any]) -> None:
    """Raise ModelNotFoundError unless the weights fit the config key for key."""
    claims = {
        "missing_keys": "missing",
        "unexpected_keys": "unknown",
        "mismatched_keys": "of another shape",
        "error_msgs": "unreadable",
    }
    faults = []
    for kind, claim in claims.items():
        keys = sorted({str(key) for key in report.get(kind) or ()})
        if keys:
            more = ", ..." if len(keys) > len(keys[:2]) else ""
            faults.append(f"{len(keys)} {claim} ({', '.join(keys[:2])}{more})")
    if faults:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: {'; '.join(faults)}; "
            "pull the model again"
        )
