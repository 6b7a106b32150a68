"""Read and check a Whisper in transformers' format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wlk_core.plugins import ModelNotFoundError
from wlk_frameworks.checkpoints import (
    LayerCount,
    Size,
    TensorSize,
    check_sizes,
    read_json_table,
    read_safetensors_headers,
    weight_names,
)

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_frameworks.checkpoints import TensorHeader

REMEDY = "pull or convert the model again"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")
SIZES = (
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


def read_checkpoint(directory: Path) -> tuple[dict[str, Any], list[Path], dict[str, TensorHeader]]:
    """
    Return the config of a Whisper, its safetensors files and the headers of their tensors.

    The weights are one file, or the shards that an index names.  Pickled weights are refused,
    because they can run code.  Sizes in the config are checked against the weights, because
    frameworks allocate whatever a config asks for.

    Raises:
        ModelNotFoundError: a file is missing, damaged or pickled, the config describes another
            model or lacks a size, or the weights do not fit the config.

    """
    path = directory / "config.json"
    model_type = read_json_table(path).get("model_type")
    if model_type != "whisper":
        raise ModelNotFoundError(
            f"expected a Whisper in transformers' format in {directory}, but its config.json has "
            f"model_type={str(model_type)[:60]!r}"
        )
    config = read_json_table(path, _Config, remedy=REMEDY)
    names = weight_names(directory)
    for name in names:
        if not (directory / name).is_file():
            raise ModelNotFoundError(_missing_message(directory, name))
    files = [directory / name for name in names]
    tensors = read_safetensors_headers(files)
    check_sizes(config, SIZES, tensors, path=path, remedy=REMEDY)
    for key in ("encoder_attention_heads", "decoder_attention_heads"):
        if config["d_model"] % config[key]:
            raise ModelNotFoundError(
                f"{path} is invalid: expected {key} to divide the width {config['d_model']}, got "
                f"{config[key]}; {REMEDY}"
            )
    return config, files, tensors


def _missing_message(directory: Path, name: str) -> str:
    pickles = [pickle for pickle in PICKLES if (directory / pickle).exists()]
    if pickles:
        return (
            f"expected {name} in {directory}, found {pickles[0]}: pickled weights can run code and "
            "are not read; convert them once, on a machine that may run them, with transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(OUT)"
        )
    return (
        f"expected a Whisper in transformers' format (config.json, {name}, tokenizer.json) in "
        f"{directory}; pull one with: wlk-core pull base --backend whisper"
    )
