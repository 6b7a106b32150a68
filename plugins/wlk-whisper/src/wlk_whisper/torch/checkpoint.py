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
from wlk_core.models import read_safetensors_headers
from wlk_core.plugins import ModelNotFoundError
from wlk_whisper.engine.transformers_config import check_config, read_config
from wlk_whisper.engine.weight_files import weight_files

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.models import TensorHeader

__all__ = ["check_directory", "load_whisper"]

# What transformers raises over a config.json with a value of the wrong type.
_CONFIG_ERRORS = (
    ArithmeticError,
    AttributeError,
    KeyError,
    RuntimeError,
    StrictDataclassError,
    TypeError,
    ValueError,
)
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
    config, tensors = check_directory(directory)
    require_memory(
        str(directory),
        needed=sum(tensor.size for tensor in tensors.values()) * dtype.itemsize,
        available=available_memory(device),
        device=device.type,
        remedy="choose a smaller model, or another device",
    )
    whisper = _empty_model(directory, config)
    state: dict[str, torch.Tensor] = {}
    for path in weight_files(directory, backend="whisper"):
        state |= _read_weights(path)
    placed = {name: tensor.to(device, dtype) for name, tensor in state.items()}
    embedding = placed.get("model.decoder.embed_tokens.weight")
    if embedding is not None:
        placed.setdefault(TIED_WEIGHT, embedding)
    try:
        whisper.load_state_dict(placed, assign=True)
    except RuntimeError as error:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: "
            f"{' '.join(str(error).split())[:300]}; pull or convert the model again"
        ) from error
    whisper.train(mode=False)
    whisper.requires_grad_(False)
    return whisper


def check_directory(directory: Path) -> tuple[WhisperConfig, dict[str, TensorHeader]]:
    """
    Return the config of *directory* and the header of its weights, which have the same sizes.

    Raises:
        ModelNotFoundError: it contains no Whisper in transformers' format, or the two differ.

    """
    table = read_config(directory)
    tensors = read_safetensors_headers(weight_files(directory, backend="whisper"))
    check_config(directory, table, tensors)
    try:
        config = WhisperConfig.from_dict(table)
    except _CONFIG_ERRORS as error:
        raise _no_whisper(directory, error) from error
    # transformers has further names for the same sizes, and the last in the file counts.
    check_config(directory, config.to_dict(), tensors)
    return config, tensors


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        state: dict[str, torch.Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelNotFoundError(
            f"{path} is damaged: {error}; pull or convert the model again"
        ) from error
    return state


def _empty_model(directory: Path, config: WhisperConfig) -> WhisperForConditionalGeneration:
    """Return the modules that *config* describes, without memory or random weights."""
    try:
        with torch.device("meta"):
            return WhisperForConditionalGeneration(config)
    except _CONFIG_ERRORS as error:
        raise _no_whisper(directory, error) from error


def _no_whisper(directory: Path, error: Exception) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{directory / 'config.json'} does not describe a Whisper: "
        f"{' '.join(str(error).split())[:300]}; pull or convert the model again"
    )
