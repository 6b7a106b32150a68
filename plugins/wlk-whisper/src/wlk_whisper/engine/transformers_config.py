"""The config.json of a Whisper in transformers' format, and where the weights have its sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core.models import LayerCount, TensorSize, check_sizes, read_json_table
from wlk_core.models.json_kinds import Flag, Table, Text, Whole
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wlk_core.models import TensorHeader

__all__ = ["check_config", "check_heads", "read_config"]

FILE_NAME = "config.json"
_SIZES = (
    LayerCount("encoder_layers", ("model.encoder.layers.",)),
    LayerCount("decoder_layers", ("model.decoder.layers.",)),
    TensorSize("d_model", ("model.encoder.layer_norm.bias",)),
    TensorSize("d_model", ("model.decoder.layer_norm.bias",)),
    TensorSize("encoder_ffn_dim", ("model.encoder.layers.0.fc1.bias",)),
    TensorSize("decoder_ffn_dim", ("model.decoder.layers.0.fc1.bias",)),
    TensorSize("num_mel_bins", ("model.encoder.conv1.weight",), axis=1),
    TensorSize("vocab_size", ("model.decoder.embed_tokens.weight",)),
    TensorSize("max_source_positions", ("model.encoder.embed_positions.weight",)),
    TensorSize("max_target_positions", ("model.decoder.embed_positions.weight",)),
)
_HEADS = ("encoder_attention_heads", "decoder_attention_heads")
_REQUIRED = (*(size.key for size in _SIZES), *_HEADS)
_SCHEMA = Table(
    {
        **dict.fromkeys(_REQUIRED, Whole(1)),
        "activation_function": Text(),
        "scale_embedding": Flag(),
        "tie_word_embeddings": Flag(),
    },
    required=_REQUIRED,
)


def read_config(directory: Path) -> dict[str, Any]:
    """
    Return the config.json of *directory*, which has the sizes of a Whisper as whole numbers.

    Raises:
        ModelNotFoundError: it describes another model, is damaged, or lacks a size.

    """
    path = directory / FILE_NAME
    config = read_json_table(path, Table({"model_type": Text()}))
    if config.get("model_type") != "whisper":
        raise ModelNotFoundError(
            f"expected a Whisper in transformers' format in {directory}, and its config.json has "
            f"model_type={config.get('model_type')!r}"
        )
    fault = _SCHEMA.fault(config)
    if fault is not None:
        raise ModelNotFoundError(f"{path} is invalid: {fault}; pull or convert the model again")
    return config


def check_config(
    directory: Path, config: Mapping[str, Any], tensors: Mapping[str, TensorHeader]
) -> None:
    """
    Check that the sizes of *config* are those of *tensors*, before anything is built.

    Raises:
        ModelNotFoundError: a size differs, or the heads do not divide the width.

    """
    path = directory / FILE_NAME
    check_sizes(config, _SIZES, tensors, path=path, remedy="pull or convert the model again")
    for key in _HEADS:
        check_heads(path, key, width=config["d_model"], heads=config[key])


def check_heads(path: Path, key: str, *, width: int, heads: int) -> None:
    """
    Check that *heads*, the value of *key* in the config at *path*, share the channels evenly.

    Raises:
        ModelNotFoundError: they do not.

    """
    if heads < 1 or width % heads:
        raise ModelNotFoundError(
            f"{path} is invalid: expected {key} to divide the width {width}, got {heads}; "
            "pull or convert the model again"
        )
