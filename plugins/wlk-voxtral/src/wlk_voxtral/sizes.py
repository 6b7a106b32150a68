"""Check the sizes in a configuration of any layout: their types, and against the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from msgspec import Meta, Struct

from wlk_frameworks.checkpoints import LayerCount, Size, TensorSize, check_sizes
from wlk_voxtral.weight_names import module_weight

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wlk_frameworks.checkpoints import TensorHeader

_Theta = Annotated[float, Meta(ge=1, le=1e12)] | None
_Epsilon = Annotated[float, Meta(ge=0, le=1)] | None
_Mels = Annotated[int, Meta(ge=1, le=512)] | None


class _Rope(Struct):
    rope_theta: _Theta = None


class _Audio(Struct):
    num_mel_bins: _Mels = None
    global_log_mel_max: Annotated[float, Meta(ge=-20, le=20)] | None = None


class _Stack(Struct):  # a stack of layers, with the keys of Mistral or of transformers
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
    sliding_window: Size | str | None = None  # a string in some files
    ada_rms_norm_t_cond_dim: Size | None = None
    num_mel_bins: _Mels = None
    downsample_factor: Annotated[int, Meta(ge=1, le=64)] | None = None
    audio_encoding_args: _Audio | None = None


class _WhisperModel(Struct):
    encoder_args: _Stack
    downsample_args: _Stack | None = None


class _Multimodal(Struct):
    whisper_model_args: _WhisperModel


class Quantization(Struct, frozen=True):
    """The packing of weights: each group of `group_size` shares a scale and a bias."""

    bits: Literal[2, 3, 4, 5, 6, 8]
    group_size: Literal[32, 64, 128]
    mode: Literal["affine"] = "affine"


class ConfigSchema(_Stack):
    """The keys of all layouts; the reader of a layout checks that those it needs are there."""

    multimodal: _Multimodal | None = None  # Mistral and voxmlx, with the decoder's keys beside it
    encoder_args: _Stack | None = None  # mlx-audio
    decoder: _Stack | None = None
    audio_config: _Stack | None = None  # transformers
    text_config: _Stack | None = None
    quantization: Quantization | None = None
    quantization_config: Quantization | None = None


@attrs.frozen
class StackKeys:
    """The names of the sizes of a stack of layers in a layout."""

    width: str
    layers: str
    hidden: str
    heads: str
    head_size: str
    key_heads: str
    norm_eps: str


MISTRAL = StackKeys(
    "dim", "n_layers", "hidden_dim", "n_heads", "head_dim", "n_kv_heads", "norm_eps"
)
TRANSFORMERS = StackKeys(
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "head_dim",
    "num_key_value_heads",
    "rms_norm_eps",
)


def check_config(
    config: Mapping[str, Any], headers: Mapping[str, TensorHeader], *, path: Path
) -> None:
    """
    Check that the sizes of *config*, which was read from *path*, match the weights.

    Raises:
        ModelNotFoundError: a size differs.

    """
    named = {module_weight(name): header for name, header in headers.items()}
    tensors = {weight.name: header for weight, header in named.items() if weight is not None}
    if "multimodal" in config:
        keys, encoder, decoder = MISTRAL, "multimodal.whisper_model_args.encoder_args.", ""
    elif "encoder_args" in config:
        keys, encoder, decoder = MISTRAL, "encoder_args.", "decoder."
    else:
        keys, encoder, decoder = TRANSFORMERS, "audio_config.", "text_config."
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


def _stack_sizes(keys: StackKeys, prefix: str, stack: str) -> tuple[LayerCount | TensorSize, ...]:
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
