"""Load the weights of a directory in transformers' format, all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_core.models import read_json_table
from wlk_core.plugins import ModelNotFoundError
from wlk_whisper.engine.weight_files import weight_files

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_whisper"]

TIED_WEIGHT = "proj_out.weight"  # the token embedding, in every Whisper that OpenAI published


def load_whisper(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> WhisperForConditionalGeneration:
    """
    Load the Whisper in *directory* on *device*, its weights as *dtype*.

    Every parameter must be in the files and nothing else, because a model with random weights emits
    text, too.

    Raises:
        ModelNotFoundError: the directory contains no such model; the message gives the reason.

    """
    config = read_json_table(directory / "config.json")
    if config.get("model_type") != "whisper":
        raise ModelNotFoundError(
            f"expected a Whisper in transformers' format in {directory}, and its config.json has "
            f"model_type={config.get('model_type')!r}"
        )
    state: dict[str, torch.Tensor] = {}
    for path in weight_files(directory, backend="whisper"):
        state |= _read_weights(path)
    whisper = _empty_model(directory, config)
    _check_weights(directory, expected=whisper.state_dict(), found=state)
    placed = {name: tensor.to(device, dtype) for name, tensor in state.items()}
    placed.setdefault(TIED_WEIGHT, placed["model.decoder.embed_tokens.weight"])
    whisper.load_state_dict(placed, assign=True)
    whisper.train(mode=False)
    whisper.requires_grad_(False)
    return whisper


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        state: dict[str, torch.Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelNotFoundError(
            f"{path} is damaged: {error}; pull or convert the model again"
        ) from error
    return state


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
