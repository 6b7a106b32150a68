"""The weight files of a directory in transformers' format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.models import read_json_table
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SHARD_INDEX", "WEIGHTS", "weight_files"]

WEIGHTS = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
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
    names = [WEIGHTS]
    if (directory / SHARD_INDEX).is_file():
        weight_map = read_json_table(directory / SHARD_INDEX).get("weight_map")
        if not isinstance(weight_map, dict):
            raise ModelNotFoundError(
                f"weight_map in {directory / SHARD_INDEX} should be a table, "
                f"got {type(weight_map).__name__}; pull or convert the model again"
            )
        names = sorted(set(map(str, weight_map.values())))
    paths = [directory / name for name in names]
    for path, name in zip(paths, names, strict=True):
        if path.parent != directory or not path.is_file():
            raise ModelNotFoundError(_missing_message(directory, name, backend))
    return paths


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
