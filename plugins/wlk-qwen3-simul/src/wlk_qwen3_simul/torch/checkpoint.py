"""Load a Qwen3-ASR of either layout on torch, and refuse one that is incomplete or damaged."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import Qwen3ASRForConditionalGeneration

from wlk_core.plugins import ModelNotFoundError
from wlk_frameworks.checkpoints import read_json_table
from wlk_frameworks.transformers import load_checked
from wlk_qwen3_simul.engine.config import check_config, read_config_table, ties_head
from wlk_qwen3_simul.engine.frames import SECOND_TOKENS
from wlk_qwen3_simul.torch.network import ATTENTION_NAME, register_attention

if TYPE_CHECKING:
    from pathlib import Path

    import torch

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


def load_model(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> Qwen3ASRForConditionalGeneration:
    """
    Load the Qwen3-ASR in *directory* onto *device*, with weights of *dtype*.

    The layout is the original one (`thinker.*`) or that of the `-hf` repositories.  Raises as
    `load_checked`.
    """
    register_attention()
    model = load_checked(
        Qwen3ASRForConditionalGeneration,
        directory,
        read_fields(directory),
        kind="a Qwen3-ASR",
        check=partial(check_config, directory),
        device=device,
        dtype=dtype,
        alternative="a smaller model, or another device",
        key_mapping=_KEY_MAPPING,
    )
    model.set_attn_implementation({"audio_config": "sdpa", "text_config": ATTENTION_NAME})
    loaded: Qwen3ASRForConditionalGeneration = model
    return loaded


def read_fields(directory: Path) -> dict[str, Any]:
    """
    Return the config in *directory*, of either layout, with the field names of transformers.

    The other files that transformers would read by itself are checked as well.

    Raises:
        ModelNotFoundError: it contains no Qwen3-ASR, or one that this backend does not read.

    """
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
    return _convert(table) if "thinker_config" in table else table


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
