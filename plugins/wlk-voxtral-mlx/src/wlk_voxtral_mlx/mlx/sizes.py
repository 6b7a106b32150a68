"""The sizes in a configuration of any layout: their kinds, and where the weights have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import attrs
from msgspec import Meta, Struct

from wlk_core.errors import ModelNotFoundError
from wlk_core.models import (
    Index,
    LayerCount,
    Size,
    TensorSize,
    check_sizes,
    read_safetensors_headers,
    shard_names,
)
from wlk_voxtral_mlx.mlx.weight_names import module_weight

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["ConfigSchema", "check_config", "weight_files"]

MISTRAL_WEIGHTS = "consolidated.safetensors"
_Theta = Annotated[float, Meta(ge=1, le=1e12)] | None
_Epsilon = Annotated[float, Meta(ge=0, le=1)] | None
_Mels = Annotated[int, Meta(ge=1, le=512)] | None


class _Rope(Struct):
    rope_theta: _Theta = None


class _Audio(Struct):
    num_mel_bins: _Mels = None
    global_log_mel_max: Annotated[float, Meta(ge=-20, le=20)] | None = None


class _Stack(Struct):  # of layers, with the keys of Mistral or of transformers
    dim: Size | None = None
    n_layers: Size | None = None
    hidden_dim: Size | None = None
    n_heads: Size | None = None
    n_kv_heads: Size | None = None
    norm_eps: _Epsilon = None
    hidden_size: Size | None = None
    num_hidden_layers: Size | None = None
    intermediate_size: Size | None = None
    num_attention_heads: Size | None = None
    num_key_value_heads: Size | None = None
    rms_norm_eps: _Epsilon = None
    head_dim: Size | None = None
    vocab_size: Size | None = None
    rope_theta: _Theta = None
    rope_parameters: _Rope | None = None
    sliding_window: Size | str | None = None  # some files write it as text
    ada_rms_norm_t_cond_dim: Size | None = None
    num_mel_bins: _Mels = None
    downsample_factor: Annotated[int, Meta(ge=1, le=64)] | None = None
    audio_encoding_args: _Audio | None = None


class _WhisperModel(Struct):
    encoder_args: _Stack
    downsample_args: _Stack | None = None


class _Multimodal(Struct):
    whisper_model_args: _WhisperModel


class _Quantization(Struct):
    bits: Index | None = None
    group_size: Index | None = None
    mode: str | None = None


class ConfigSchema(_Stack):
    """The keys of every layout; which of them a layout needs is the reader's to check."""

    multimodal: _Multimodal | None = None  # Mistral and voxmlx, with the decoder beside it
    encoder_args: _Stack | None = None  # mlx-audio
    decoder: _Stack | None = None
    audio_config: _Stack | None = None  # transformers
    text_config: _Stack | None = None
    quantization: _Quantization | None = None
    quantization_config: _Quantization | None = None


@attrs.frozen
class _Keys:
    """The keys of the sizes of a stack of layers."""

    width: str
    layers: str
    hidden: str
    heads: str
    head_size: str
    key_heads: str


_MISTRAL = _Keys("dim", "n_layers", "hidden_dim", "n_heads", "head_dim", "n_kv_heads")
_TRANSFORMERS = _Keys(
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "head_dim",
    "num_key_value_heads",
)


def check_config(config: Mapping[str, Any], files: list[Path], *, path: Path) -> None:
    """
    Check that the sizes of *config*, which was read from *path*, are those of the weights.

    Raises:
        ModelNotFoundError: a size differs, or a file is missing or damaged.

    """
    headers = read_safetensors_headers(files)
    named = {module_weight(name): header for name, header in headers.items()}
    tensors = {weight.name: header for weight, header in named.items() if weight is not None}
    if "multimodal" in config:
        keys, encoder, decoder = _MISTRAL, "multimodal.whisper_model_args.encoder_args.", ""
    elif "encoder_args" in config:
        keys, encoder, decoder = _MISTRAL, "encoder_args.", "decoder."
    else:
        keys, encoder, decoder = _TRANSFORMERS, "audio_config.", "text_config."
    sizes = (
        *_stack_sizes(keys, encoder, "encoder"),
        *_stack_sizes(keys, decoder, "language_model"),
        TensorSize(f"{decoder}vocab_size", ("language_model.embed_tokens.weight",)),
        TensorSize(
            f"{decoder}ada_rms_norm_t_cond_dim",
            ("language_model.layers.0.ada_norm.linear_in.weight",),
        ),
    )
    check_sizes(config, sizes, tensors, path=path)


def weight_files(directory: Path) -> list[Path]:
    """
    Return the weights of a directory: Mistral's file, the shards of an index, or all of a name.

    Raises:
        ModelNotFoundError: the index is damaged, or there are no weights.

    """
    if (directory / MISTRAL_WEIGHTS).is_file():
        return [directory / MISTRAL_WEIGHTS]
    names = shard_names(directory / "model.safetensors.index.json")
    files = [directory / name for name in names] or sorted(directory.glob("model*.safetensors"))
    if not files:
        raise ModelNotFoundError(
            f"{directory} has neither {MISTRAL_WEIGHTS} nor model.safetensors; pull the model again"
        )
    return files


def _stack_sizes(keys: _Keys, prefix: str, stack: str) -> tuple[LayerCount | TensorSize, ...]:
    layer = f"{stack}.layers.0"
    head_size = f"{prefix}{keys.head_size}"
    return (
        LayerCount(f"{prefix}{keys.layers}", (f"{stack}.layers.",)),
        TensorSize(f"{prefix}{keys.width}", (f"{stack}.norm.weight",)),
        TensorSize(f"{prefix}{keys.hidden}", (f"{layer}.mlp.gate_proj.weight",)),
        TensorSize(f"{prefix}{keys.heads} x {head_size}", (f"{layer}.attention.q_proj.weight",)),
        TensorSize(
            f"{prefix}{keys.key_heads} x {head_size}", (f"{layer}.attention.k_proj.weight",)
        ),
    )
