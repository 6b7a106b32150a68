"""A checkpoint directory in the layout of transformers, and what it declares beside its weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wlk_core.errors import ModelNotFoundError
from wlk_core.models import read_json_table
from wlk_core.streaming import LogMel
from wlk_voxtral.checkpoint import CheckpointSettings

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_checkpoint"]

CEILING = 1.5  # log10 mel energy: the default of transformers' feature extractor


def read_checkpoint(directory: Path, *, name: str) -> CheckpointSettings:
    """
    Return what streams need to know of the model in *directory*.

    Raises:
        ModelNotFoundError: it contains no Voxtral Realtime model in the layout of transformers.

    """
    config = _config(directory)
    features = read_json_table(directory / "processor_config.json").get("feature_extractor")
    features = features or read_json_table(directory / "preprocessor_config.json")
    log_mel = LogMel(
        mels=config.get("audio_config", {}).get("num_mel_bins", 128),
        ceiling=features.get("global_log_mel_max", CEILING),
    )
    return CheckpointSettings.read(directory, name=name, log_mel=log_mel)


def _config(directory: Path) -> dict[str, Any]:
    config = read_json_table(directory / "config.json")
    if config.get("model_type") == "voxtral_realtime" and "audio_config" in config:
        if any(directory.glob("model*.safetensors")):
            _refuse_quantized(directory, config)
            return config
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


def _refuse_quantized(directory: Path, config: dict[str, Any]) -> None:
    quantization = config.get("quantization_config") or config.get("quantization")
    if quantization is None:
        return
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    raise ModelNotFoundError(
        f"the weights in {directory} are quantized ({method or json.dumps(quantization)[:60]}), "
        "which the backend voxtral-hf does not read; take a model in bfloat16, or one in 4 or 6 "
        "bits with: wlk-core pull mini-4bit --backend voxtral-mlx"
    )
