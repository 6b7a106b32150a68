"""Load the weights of a directory in transformers' format, all of them or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_whisper"]

WEIGHTS = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")
TIED_WEIGHT = "proj_out.weight"  # the token embedding, in every Whisper that OpenAI published


def load_whisper(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> WhisperForConditionalGeneration:
    """
    Load the Whisper in *directory* on *device*, its weights as *dtype*.

    Weights are read from safetensors only, because pickles can run code.  Every parameter must be
    in the file and nothing else, because a model with random weights emits text, too.

    Raises:
        ModelNotFoundError: the directory contains no such model; the message gives the reason.

    """
    config = _read_json(directory / "config.json")
    if config.get("model_type") != "whisper":
        raise ModelNotFoundError(
            f"expected a Whisper in transformers' format in {directory}, and its config.json has "
            f"model_type={config.get('model_type')!r}"
        )
    state = _read_weights(directory)
    whisper = _empty_model(directory, config)
    _check_weights(directory, expected=whisper.state_dict(), found=state)
    placed = {name: tensor.to(device, dtype) for name, tensor in state.items()}
    placed.setdefault(TIED_WEIGHT, placed["model.decoder.embed_tokens.weight"])
    whisper.load_state_dict(placed, assign=True)
    whisper.train(mode=False)
    whisper.requires_grad_(False)
    return whisper


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{path} cannot be read: {error}; pull the model again") from error
    return _require_table(path, value)


def _require_table(source: object, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelNotFoundError(
            f"{source} should be a table, got {type(value).__name__}; "
            "pull or convert the model again"
        )
    return value


def _empty_model(directory: Path, config: dict[str, Any]) -> WhisperForConditionalGeneration:
    """Return the modules that *config* describes, without memory or random weights."""
    try:
        with torch.device("meta"):
            return WhisperForConditionalGeneration(WhisperConfig.from_dict(config))
    except (TypeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory / 'config.json'} does not describe a Whisper: "
            f"{' '.join(str(error).split())}; pull or convert the model again"
        ) from error


def _read_weights(directory: Path) -> dict[str, torch.Tensor]:
    names = [WEIGHTS]
    if (directory / SHARD_INDEX).is_file():
        shards = _read_json(directory / SHARD_INDEX).get("weight_map")
        table = _require_table(f"weight_map in {directory / SHARD_INDEX}", shards)
        names = sorted(set(map(str, table.values())))
    state: dict[str, torch.Tensor] = {}
    for name in names:
        path = directory / name
        if path.parent != directory or not path.is_file():
            raise ModelNotFoundError(_missing_message(directory, name))
        try:
            state |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelNotFoundError(
                f"{path} is damaged: {error}; pull or convert the model again"
            ) from error
    return state


def _missing_message(directory: Path, name: str) -> str:
    pickles = [pickle for pickle in PICKLES if (directory / pickle).exists()]
    if pickles:
        return (
            f"expected {name} in {directory}, found {pickles[0]}: pickled weights can run code and "
            "are not read; convert them once, on a machine that may run them, with transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(OUT)"
        )
    found = ", ".join(sorted(entry.name for entry in directory.iterdir())[:6]) or "nothing"
    return (
        f"expected a Whisper in transformers' format (config.json, {name}, tokenizer.json) in "
        f"{directory}, found {found}; pull one with: wlk-core pull base --backend whisper"
    )


def _check_weights(
    directory: Path, *, expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]
) -> None:
    missing = sorted(expected.keys() - found.keys() - {TIED_WEIGHT})
    unknown = sorted(found.keys() - expected.keys())
    misshapen = sorted(
        f"{name} {list(found[name].shape)} instead of {list(expected[name].shape)}"
        for name in expected.keys() & found.keys()
        if expected[name].shape != found[name].shape
    )
    claims = ((missing, "missing"), (unknown, "unknown"), (misshapen, "of another shape"))
    faults = [
        f"{len(names)} {claim} ({', '.join(names[:2])}{', ...' if len(names) > 2 else ''})"  # noqa: PLR2004 -- two examples
        for names, claim in claims
        if names
    ]
    if faults:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: {'; '.join(faults)}; "
            "pull or convert the model again"
        )
