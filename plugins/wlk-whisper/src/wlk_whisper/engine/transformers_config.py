"""The config.json of a Whisper in transformers' format, and where the weights have its sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wlk_core.models import LayerCount, Size, TensorSize, check_sizes, read_json_table
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


class _Config(Struct):
    encoder_layers: Size
    decoder_layers: Size
    d_model: Size
    encoder_ffn_dim: Size
    decoder_ffn_dim: Size
    num_mel_bins: Size
    vocab_size: Size
    max_source_positions: Size
    max_target_positions: Size
    encoder_attention_heads: Size
    decoder_attention_heads: Size
    activation_function: str | None = None
    scale_embedding: bool | None = None
    tie_word_embeddings: bool | None = None


def read_config(directory: Path) -> dict[str, Any]:
    """
    Return the config.json of *directory*, which has the sizes of a Whisper as whole numbers.

    Raises:
        ModelNotFoundError: it describes another model, is damaged, or lacks a size.

    """
    path = directory / FILE_NAME
    config = read_json_table(path)
    if config.get("model_type") != "whisper":
        raise ModelNotFoundError(
            f"expected a Whisper in transformers' format in {directory}, and its config.json has "
            f"model_type={str(config.get('model_type'))[:60]!r}"
        )
    return read_json_table(path, _Config, remedy="pull or convert the model again")


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
