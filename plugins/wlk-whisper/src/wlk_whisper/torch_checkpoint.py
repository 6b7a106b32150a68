"""Load a directory in transformers' format, all of it or not at all."""

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
SHARDS = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")
TIED = "proj_out.weight"  # the embedding of the tokens, in every Whisper OpenAI published


def load_whisper(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> WhisperForConditionalGeneration:
    """
    Load the Whisper in *directory* on *device*, its weights as *dtype*.

    Weights come from safetensors only: pickles can run code.  Every parameter must be there, and
    nothing else: a model with random weights would say something, too.

    Raises:
        ModelNotFoundError: the directory holds no such model; the message says what is wrong.

    """
    config = _read(directory / "config.json")
    if config.get("model_type") != "whisper":
        raise ModelNotFoundError(
            f"expected a Whisper in transformers' format in {directory}, and its config.json says "
            f"model_type={config.get('model_type')!r}"
        )
    state = _weights(directory)
    whisper = _empty(directory, config)
    _check(directory, expected=whisper.state_dict(), found=state)
    placed = {name: tensor.to(device, dtype) for name, tensor in state.items()}
    placed.setdefault(TIED, placed["model.decoder.embed_tokens.weight"])
    whisper.load_state_dict(placed, assign=True)
    whisper.train(mode=False)
    whisper.requires_grad_(False)
    return whisper


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{path} cannot be read: {error}; pull the model again") from error
    return _table(path, told)


def _table(where: object, told: object) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise ModelNotFoundError(
            f"{where} should be a table, got {type(told).__name__}; pull or convert the model again"
        )
    return told


def _empty(directory: Path, config: dict[str, Any]) -> WhisperForConditionalGeneration:
    """Return the modules that *config* describes, without memory and random numbers for weights."""
    try:
        with torch.device("meta"):
            return WhisperForConditionalGeneration(WhisperConfig.from_dict(config))
    except (TypeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory / 'config.json'} describes no Whisper: {' '.join(str(error).split())}; "
            "pull or convert the model again"
        ) from error


def _weights(directory: Path) -> dict[str, torch.Tensor]:
    names = [WEIGHTS]
    if (directory / SHARDS).is_file():
        shards = _read(directory / SHARDS).get("weight_map")
        names = sorted(
            set(map(str, _table(f"weight_map in {directory / SHARDS}", shards).values()))
        )
    state: dict[str, torch.Tensor] = {}
    for name in names:
        path = directory / name
        if path.parent != directory or not path.is_file():
            raise ModelNotFoundError(_absent(directory, name))
        try:
            state |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelNotFoundError(
                f"{path} is damaged: {error}; pull or convert the model again"
            ) from error
    return state


def _absent(directory: Path, name: str) -> str:
    pickles = [pickle for pickle in PICKLES if (directory / pickle).exists()]
    if pickles:
        return (
            f"expected {name} in {directory}, found {pickles[0]}: pickled weights can run code and "
            "are not read; convert them once, where they are trusted, with transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(OUT)"
        )
    found = ", ".join(sorted(entry.name for entry in directory.iterdir())[:6]) or "nothing"
    return (
        f"expected a Whisper in transformers' format (config.json, {name}, tokenizer.json) in "
        f"{directory}, found {found}; pull one with: wlk-core pull base --backend whisper"
    )


def _check(
    directory: Path, *, expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]
) -> None:
    missing = sorted(expected.keys() - found.keys() - {TIED})
    unknown = sorted(found.keys() - expected.keys())
    bent = sorted(
        f"{name} {list(found[name].shape)} instead of {list(expected[name].shape)}"
        for name in expected.keys() & found.keys()
        if expected[name].shape != found[name].shape
    )
    wrong = [
        f"{len(names)} {claim} ({', '.join(names[:2])}{', ...' if len(names) > 2 else ''})"  # noqa: PLR2004 -- two examples
        for names, claim in ((missing, "missing"), (unknown, "unknown"), (bent, "of another shape"))
        if names
    ]
    if wrong:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: {'; '.join(wrong)}; "
            "pull or convert the model again"
        )
