"""The weight files of a directory in transformers' format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.models import weight_names
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["weight_files"]

PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")
MAX_NAMED = 6  # files that an error message lists


def weight_files(directory: Path, *, backend: str) -> list[Path]:
    """
    Return the safetensors files of a checkpoint: one, or the shards that its index names.

    Pickled weights are not read, because they can run code.  *backend* is the name in the command
    of an error message.

    Raises:
        ModelNotFoundError: a file is missing, outside of the directory, or pickled.

    """
    names = weight_names(directory)
    for name in names:
        if not (directory / name).is_file():
            raise ModelNotFoundError(_missing_message(directory, name, backend))
    return [directory / name for name in names]


def _missing_message(directory: Path, name: str, backend: str) -> str:
    pickles = [pickle for pickle in PICKLES if (directory / pickle).exists()]
    if pickles:
        return (
            f"expected {name} in {directory}, found {pickles[0]}: pickled weights can run code and "
            "are not read; convert them once, on a machine that may run them, with transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(OUT)"
        )
    entries = sorted(entry.name for entry in directory.iterdir())
    return (
        f"expected a Whisper in transformers' format (config.json, {name}, tokenizer.json) in "
        f"{directory}, found {', '.join(entries[:MAX_NAMED]) or 'nothing'}; pull one with: "
        f"wlk-core pull base --backend {backend}"
    )
