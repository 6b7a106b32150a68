"""The config.json of a Qwen3-ASR in either layout, and where the weights have its sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core.models import (
    LayerCount,
    TensorHeader,
    TensorSize,
    check_sizes,
    read_json_table,
    read_safetensors_headers,
    weight_names,
)
from wlk_core.models.json_kinds import Flag, ListOf, Number, Table, Text, Whole
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["check_config", "read_config_table", "read_headers"]

FILE_NAME = "config.json"
CONV_STRIDE = 8  # mel bands in a row of the last convolution
MAX_MELS = 512  # every Qwen3-ASR has 128
# Both frameworks compute a table of as many sinusoids; the published models have 1,500.
_POSITIONS = Whole(1, 30_000)
_AUDIO_SIZES = (
    "num_mel_bins",
    "encoder_layers",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "d_model",
    "output_dim",
    "downsample_hidden_size",
)
_TEXT_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)
_AUDIO = Table(
    {
        **dict.fromkeys(_AUDIO_SIZES, Whole(1)),
        "num_mel_bins": Whole(1, MAX_MELS),
        "max_source_positions": _POSITIONS,
        "max_position_embeddings": _POSITIONS,
        "scale_embedding": Flag(),
        "activation_function": Text(),
    },
)
_TEXT = Table(
    {
        **dict.fromkeys(_TEXT_SIZES, Whole(1)),
        "max_position_embeddings": Whole(1),
        "rms_norm_eps": Number(0, 1),
        "rope_theta": Number(1, 1e12),
        "rope_scaling": Table({"mrope_section": ListOf(Whole(0, 4096))}),
        "rope_parameters": Table({"rope_theta": Number(1, 1e12)}),
        "attention_bias": Flag(),
        "tie_word_embeddings": Flag(),
        "hidden_act": Text(),
        # A layer of another type would need a mask of its own.
        "layer_types": ListOf(Text("full_attention")),
    },
)
_PARTS = Table(
    {
        "audio_config": _AUDIO,
        "text_config": _TEXT,
        "audio_token_id": Whole(),
        "classify_num": Whole(1),
        "tie_word_embeddings": Flag(),
    },
    required=("audio_config", "text_config"),
)
_ORIGINAL = Table({"thinker_config": _PARTS, "tie_word_embeddings": Flag()})
_TOWERS = ("thinker.audio_tower.", "model.audio_tower.", "audio_tower.")
_DECODERS = ("thinker.model.", "model.language_model.", "model.")


def _tower(name: str) -> tuple[str, ...]:
    return tuple(prefix + name for prefix in _TOWERS)


def _decoder(name: str) -> tuple[str, ...]:
    return tuple(prefix + name for prefix in _DECODERS)


_SIZES = (
    LayerCount("audio_config.encoder_layers", _tower("layers.")),
    LayerCount("text_config.num_hidden_layers", _decoder("layers.")),
    TensorSize("audio_config.d_model", _tower("ln_post.bias")),
    TensorSize("audio_config.encoder_ffn_dim", _tower("layers.0.fc1.bias")),
    TensorSize("audio_config.downsample_hidden_size", _tower("conv2d1.bias")),
    TensorSize(
        "audio_config.output_dim",
        (*_tower("proj2.bias"), "model.multi_modal_projector.linear_2.bias"),
    ),
    TensorSize("text_config.hidden_size", _decoder("layers.0.input_layernorm.weight")),
    TensorSize("text_config.vocab_size", _decoder("embed_tokens.weight")),
    TensorSize("text_config.head_dim", _decoder("layers.0.self_attn.q_norm.weight")),
    TensorSize("text_config.intermediate_size", _decoder("layers.0.mlp.gate_proj.weight")),
    TensorSize(
        "text_config.num_attention_heads x text_config.head_dim",
        _decoder("layers.0.self_attn.q_proj.weight"),
    ),
    TensorSize(
        "text_config.num_key_value_heads x text_config.head_dim",
        _decoder("layers.0.self_attn.k_proj.weight"),
    ),
)


def read_config_table(directory: Path) -> dict[str, Any]:
    """
    Return the config.json of *directory*; the sizes that it has are whole numbers.

    transformers leaves out what is the default.

    Raises:
        ModelNotFoundError: it describes another model, or is damaged.

    """
    path = directory / FILE_NAME
    table = read_json_table(path, Table({"model_type": Text()}))
    if table.get("model_type") != "qwen3_asr":
        raise ModelNotFoundError(
            f"expected a Qwen3-ASR in {directory}, and its config.json has "
            f"model_type={table.get('model_type')!r}"
        )
    fault = (_ORIGINAL if "thinker_config" in table else _PARTS).fault(table)
    if fault is not None:
        raise ModelNotFoundError(
            f"{path} does not describe a Qwen3-ASR: {fault}; pull the model again"
        )
    if "quantization_config" in table:
        raise ModelNotFoundError(
            f"{path} has a quantization_config, which this backend does not read; take a model in "
            "bfloat16, such as Qwen/Qwen3-ASR-0.6B"
        )
    return table


def read_headers(directory: Path) -> dict[str, TensorHeader]:
    """
    Return the tensors of a model by their names; their numbers are not read.

    Raises:
        ModelNotFoundError: a file is missing or damaged.

    """
    return read_safetensors_headers(directory / name for name in weight_names(directory))


def check_config(
    directory: Path, parts: Mapping[str, Any], tensors: Mapping[str, TensorHeader]
) -> None:
    """
    Check that the sizes of *parts* are those of *tensors*, before anything is built.

    Args:
        directory: of the model, for error messages.
        parts: a table with audio_config and text_config, in either layout.
        tensors: the tensors of the weights.

    Raises:
        ModelNotFoundError: a size differs, or heads cannot share the channels evenly.

    """
    path = directory / FILE_NAME
    check_sizes(parts, _SIZES, tensors, path=path)
    audio, text = parts["audio_config"], parts["text_config"]
    mels, channels = audio.get("num_mel_bins"), audio.get("downsample_hidden_size")
    # A quantised matrix has other columns, and the range of the key is narrow enough.
    columns = TensorSize("num_mel_bins", _tower("conv_out.weight"), axis=1).found(tensors)
    is_quantised = any(name.endswith("conv_out.scales") for name in tensors)
    if columns and channels and mels and not is_quantised:
        found = columns // channels * CONV_STRIDE
        if not found - CONV_STRIDE < mels <= found:
            raise ModelNotFoundError(
                f"{path} does not fit the weights: it has audio_config.num_mel_bins={mels}, and "
                f"the weights have {found}; pull the model again"
            )
    for part, width, heads in (
        (audio, "d_model", "encoder_attention_heads"),
        (text, "num_attention_heads", "num_key_value_heads"),
    ):
        if part.get(width) and part.get(heads) and part[width] % part[heads]:
            raise ModelNotFoundError(
                f"{path} is invalid: expected {heads} to divide {width}={part[width]}, got "
                f"{part[heads]}; pull the model again"
            )
