"""Read what a checkpoint in the layout of transformers declares besides its weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from wlk_core.errors import ModelNotFoundError
from wlk_frameworks.checkpoints import check_agreement, read_json_table
from wlk_frameworks.features import LogMel
from wlk_voxtral.checkpoint import CheckpointConfig
from wlk_voxtral.sizes import ConfigSchema

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
CEILING = 1.5  # log10 mel energy; the default of transformers' feature extractor
MELS, VOCABULARY = 128, 131_072  # the defaults of transformers


class _Features(Struct):
    feature_size: Annotated[int, Meta(ge=1, le=512)] | None = None
    global_log_mel_max: Annotated[float, Meta(ge=-20, le=20)] | None = None


class _Processor(Struct):
    feature_extractor: _Features | None = None


def read_checkpoint(directory: Path, *, name: str) -> CheckpointConfig:
    """
    Return what streams need to know about the model in *directory*.

    Raises:
        ModelNotFoundError: it contains no Voxtral Realtime model in the layout of transformers.

    """
    config = _config(directory)
    path = directory / "processor_config.json"
    features = read_json_table(path, _Processor).get("feature_extractor")
    if features is None:
        path = directory / "preprocessor_config.json"
        features = read_json_table(path, _Features)
    bins = ("audio_config.num_mel_bins", config["audio_config"].get("num_mel_bins") or MELS)
    check_agreement(path, ("feature_size", features.get("feature_size")), directory / CONFIG, bins)
    ceiling = features.get("global_log_mel_max")
    log_mel = LogMel(
        mels=bins[1],
        ceiling=CEILING if ceiling is None else ceiling,
    )
    read_json_table(directory / "generation_config.json")  # validated: transformers reads it
    path = directory / CONFIG
    checkpoint = CheckpointConfig.read(directory, name=name, log_mel=log_mel, config_file=path)
    rows = config["text_config"].get("vocab_size") or VOCABULARY
    checkpoint.require_vocabulary(rows, file=path)
    return checkpoint


def _config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG
    config = read_json_table(path)
    if config.get("model_type") == "voxtral_realtime" and "audio_config" in config:
        if any(directory.glob("model*.safetensors")):
            _refuse_unsupported(directory, config)
            return read_json_table(path, ConfigSchema)
        found = "config.json without model*.safetensors"
    elif "multimodal" in config:
        found = "the layout of voxmlx, which the backend voxtral-mlx reads"
    elif "encoder_args" in config:
        found = "the layout of mlx-audio, which the backend voxtral-mlx reads"
    elif (directory / "params.json").is_file():
        found = "Mistral's own layout, which the backend voxtral-mlx reads"
    else:
        names = sorted(entry.name for entry in directory.iterdir())[:6]
        found = ", ".join(names) or "nothing"
    raise ModelNotFoundError(
        f"expected a Voxtral Realtime model of transformers (config.json, model.safetensors, "
        f"tekken.json) in {directory}, found {found}; get one with: "
        "wlk-core pull mini --backend voxtral-hf"
    )


def _refuse_unsupported(directory: Path, config: dict[str, Any]) -> None:
    if (directory / ADAPTER).exists():
        raise ModelNotFoundError(
            f"{directory} contains {ADAPTER}: an adapter, which the backend voxtral-hf does not "
            "read; merge it into the model with peft, or remove the file"
        )
    quantization = config.get("quantization_config") or config.get("quantization")
    if quantization is not None:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise ModelNotFoundError(
            f"the weights in {directory} are quantized "
            f"({method or json.dumps(quantization)[:60]}), which the backend voxtral-hf does not "
            "read; use a model in bfloat16, or get one in 4 bits with: "
            "wlk-core pull mini-4bit --backend voxtral-mlx"
        )
