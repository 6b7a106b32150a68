"""Read the config.json of a Qwen3-ASR in either layout, and check its sizes against the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from wlk_core.plugins import ModelNotFoundError
from wlk_frameworks.checkpoints import (
    Index,
    LayerCount,
    Size,
    TensorHeader,
    TensorSize,
    check_agreement,
    check_sizes,
    read_json_table,
)
from wlk_qwen3_simul.engine.frames import SECOND_MEL_FRAMES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE_NAME = "config.json"
MAX_MELS = 512  # every Qwen3-ASR has 128
# Both frameworks compute a table with this many positions; the published models have 1,500.
_Positions = Annotated[int, Meta(ge=1, le=30_000)]


class _Audio(Struct):
    num_mel_bins: Annotated[int, Meta(ge=1, le=MAX_MELS)] | None = None
    encoder_layers: Size | None = None
    encoder_attention_heads: Size | None = None
    encoder_ffn_dim: Size | None = None
    d_model: Size | None = None
    output_dim: Size | None = None
    downsample_hidden_size: Size | None = None
    max_source_positions: _Positions | None = None
    max_position_embeddings: _Positions | None = None
    n_window: Literal[50] | None = None  # half a second of mel frames
    n_window_infer: Annotated[int, Meta(gt=0, multiple_of=SECOND_MEL_FRAMES)] | None = None
    scale_embedding: bool | None = None
    activation_function: str | None = None


class _Features(Struct):
    feature_size: Annotated[int, Meta(ge=1, le=MAX_MELS)] | None = None


class _RopeScaling(Struct):
    mrope_section: list[Annotated[int, Meta(ge=0, le=4096)]] | None = None


class _Rope(Struct):
    rope_theta: Annotated[float, Meta(ge=1, le=1e12)] | None = None


class _Text(Struct):
    vocab_size: Size | None = None
    hidden_size: Size | None = None
    intermediate_size: Size | None = None
    num_hidden_layers: Size | None = None
    num_attention_heads: Size | None = None
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    max_position_embeddings: Size | None = None
    rms_norm_eps: Annotated[float, Meta(ge=0, le=1)] | None = None
    rope_theta: Annotated[float, Meta(ge=1, le=1e12)] | None = None
    rope_scaling: _RopeScaling | None = None
    rope_parameters: _Rope | None = None
    attention_bias: bool | None = None
    tie_word_embeddings: bool | None = None
    hidden_act: str | None = None
    # A layer of another type would need a mask of its own.
    layer_types: list[Literal["full_attention"]] | None = None


class _Parts(Struct):
    audio_config: _Audio
    text_config: _Text
    audio_token_id: Index | None = None
    classify_num: Size | None = None
    tie_word_embeddings: bool | None = None


class _Original(Struct):
    thinker_config: _Parts
    tie_word_embeddings: bool | None = None


def _tower(name: str) -> tuple[str, ...]:
    return tuple(f"{prefix}audio_tower.{name}" for prefix in ("thinker.", "model.", ""))


def _decoder(name: str) -> tuple[str, ...]:
    return tuple(
        f"{prefix}.{name}" for prefix in ("thinker.model", "model.language_model", "model")
    )


_HEAD_DIM = " x text_config.head_dim"
_SIZES: tuple[LayerCount | TensorSize, ...] = (
    LayerCount("audio_config.encoder_layers", _tower("layers.")),
    LayerCount("text_config.num_hidden_layers", _decoder("layers.")),
    *(
        TensorSize(f"audio_config.{key}", _tower(name))
        for key, name in {
            "d_model": "ln_post.bias",
            "encoder_ffn_dim": "layers.0.fc1.bias",
            "downsample_hidden_size": "conv2d1.bias",
        }.items()
    ),
    TensorSize(
        "audio_config.output_dim",
        (*_tower("proj2.bias"), "model.multi_modal_projector.linear_2.bias"),
    ),
    *(
        TensorSize(key, _decoder(name))
        for key, name in {
            "text_config.hidden_size": "layers.0.input_layernorm.weight",
            "text_config.vocab_size": "embed_tokens.weight",
            "text_config.head_dim": "layers.0.self_attn.q_norm.weight",
            "text_config.intermediate_size": "layers.0.mlp.gate_proj.weight",
            f"text_config.num_attention_heads{_HEAD_DIM}": "layers.0.self_attn.q_proj.weight",
            f"text_config.num_key_value_heads{_HEAD_DIM}": "layers.0.self_attn.k_proj.weight",
        }.items()
    ),
)


def read_config_table(directory: Path) -> dict[str, Any]:
    """
    Read the config.json in *directory*, and check its values and those of its features.

    Any size may be missing, because transformers does not write defaults.

    Raises:
        ModelNotFoundError: it describes another model, or is damaged.

    """
    path = directory / FILE_NAME
    table = read_json_table(path)
    if table.get("model_type") != "qwen3_asr":
        raise ModelNotFoundError(
            f"expected a Qwen3-ASR in {directory}, but its config.json has "
            f"model_type={str(table.get('model_type'))[:60]!r}"
        )
    read_json_table(path, _Original if "thinker_config" in table else _Parts)
    features = directory / "preprocessor_config.json"
    mels = ("feature_size", read_json_table(features, _Features).get("feature_size"))
    audio = table.get("thinker_config", table)["audio_config"]
    check_agreement(features, mels, path, ("num_mel_bins", audio.get("num_mel_bins")))
    return table


def ties_head(config: Mapping[str, Any]) -> bool:
    """Return whether *config*, in the original layout, ties the output head to the embedding."""
    thinker = config["thinker_config"]
    for part in (thinker.get("text_config", {}), thinker, config):
        if "tie_word_embeddings" in part:
            return bool(part["tie_word_embeddings"])
    return True  # as in the published models


def check_config(
    directory: Path, parts: Mapping[str, Any], tensors: Mapping[str, TensorHeader]
) -> None:
    """
    Check that the sizes in *parts* match the shapes of *tensors*, before a model is built.

    Args:
        directory: the directory of the model, for error messages.
        parts: a table with audio_config and text_config, in either layout.
        tensors: the headers of all weights, by name.

    Raises:
        ModelNotFoundError: a size differs.

    """
    check_sizes(parts, _SIZES, tensors, path=directory / FILE_NAME)
