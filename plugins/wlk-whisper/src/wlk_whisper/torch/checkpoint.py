"""Load the weights of a directory in transformers' format, all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_core.frameworks.memory import require_memory
from wlk_core.frameworks.torch import available_memory
from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_whisper.engine.model_files import REMEDY, check_config, read_checkpoint

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
        BackendUnavailable: it does not fit into memory.

    """
    table, files, tensors = read_checkpoint(directory)
    require_memory(
        str(directory),
        needed=sum(tensor.size for tensor in tensors.values()) * dtype.itemsize,
        available=available_memory(device),
        device=device.type,
        remedy="choose a smaller model, or another device",
    )
    try:
        config = WhisperConfig.from_dict(table)
        # transformers has further names for the same sizes, and the last in the file counts.
        check_config(directory / "config.json", config.to_dict(), tensors)
        with torch.device("meta"):  # modules without memory or random weights
            whisper = WhisperForConditionalGeneration(config)
    # What transformers raises over a value of the wrong type or an unknown activation.
    except (AttributeError, KeyError, StrictDataclassError, TypeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory / 'config.json'} does not describe a Whisper: {one_line(str(error))}; "
            f"{REMEDY}"
        ) from error
    try:
        state = {name: tensor for path in files for name, tensor in load_file(path).items()}
        placed = {name: tensor.to(device, dtype) for name, tensor in state.items()}
        embedding = placed.get("model.decoder.embed_tokens.weight")
        if embedding is not None:
            placed.setdefault(TIED_WEIGHT, embedding)
        whisper.load_state_dict(placed, assign=True)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: "
            f"{' '.join(str(error).split())[:300]}; {REMEDY}"
        ) from error
    whisper.train(mode=False)
    whisper.requires_grad_(False)
    return whisper
