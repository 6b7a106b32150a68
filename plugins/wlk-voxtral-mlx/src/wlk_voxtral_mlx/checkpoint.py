"""A checkpoint directory in any of its four layouts, and what it says beside its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core import ModelNotFoundError
from wlk_core.models import read_settings
from wlk_core.streaming import LogMel
from wlk_voxtral.backend import VoxtralFormat
from wlk_voxtral_mlx.shape import Shape

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_checkpoint"]


def read_checkpoint(directory: Path, *, name: str) -> tuple[Shape, VoxtralFormat]:
    """
    Return the sizes of the model in *directory* and what streams need to know of it.

    Weights are not read.

    Raises:
        ModelNotFoundError: it holds no Voxtral Realtime model.

    """
    # Mistral's repository holds both layouts: its own weights are read, so is its own config.
    is_mistral = (directory / "consolidated.safetensors").is_file()
    file = directory / ("params.json" if is_mistral else "config.json")
    if not file.is_file() or not any(directory.glob("*.safetensors")):
        names = sorted(entry.name for entry in directory.iterdir())[:6]
        raise ModelNotFoundError(
            "expected a Voxtral Realtime model (consolidated.safetensors and params.json, or "
            "model.safetensors and config.json, and tekken.json) in "
            f"{directory}, found {', '.join(names) or 'nothing'}; get one with: "
            "wlk-core pull mini-6bit --backend voxtral-mlx"
        )
    try:
        shape = Shape.read(read_settings(file))
    except ValueError as error:
        raise ModelNotFoundError(
            f"{file} describes no Voxtral Realtime model that can be loaded: {error}; get one "
            "with: wlk-core pull mini-6bit --backend voxtral-mlx"
        ) from error
    log_mel = LogMel(mels=shape.mels, ceiling=shape.ceiling)
    return shape, VoxtralFormat.read(directory, name=name, log_mel=log_mel)
