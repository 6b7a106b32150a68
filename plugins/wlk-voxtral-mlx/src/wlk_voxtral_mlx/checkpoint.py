"""A checkpoint directory in any of its four layouts, and what it says beside its weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core import ModelNotFoundError, OptionError
from wlk_core.streaming import LogMel, Tekken
from wlk_voxtral_mlx.shape import Shape

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkpoint"]

MANIFEST = "wlk.json"


@attrs.frozen(kw_only=True, eq=False)
class Checkpoint:
    """
    What streams need to know of a checkpoint.

    A ``wlk.json`` beside the weights may name the dtype a checkpoint wants and the delays it was
    trained for; others are held to the format alone.
    """

    name: str
    directory: Path
    shape: Shape
    tekken: Tekken
    log_mel: LogMel
    dtype: str | None = None
    delays_ms: tuple[int, ...] | None = None

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """
        Read *directory*, but for its weights.

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
            shape = Shape.read(_read(file))
        except ValueError as error:
            raise ModelNotFoundError(
                f"{file} describes no Voxtral Realtime model that can be loaded: {error}; get one "
                "with: wlk-core pull mini-6bit --backend voxtral-mlx"
            ) from error
        if not (directory / "tekken.json").is_file():
            raise ModelNotFoundError(
                f"{directory} holds no tekken.json, the tokenizer of Voxtral Realtime; "
                "pull the model again, or copy the file from where it was published"
            )
        try:
            tekken = Tekken.from_json((directory / "tekken.json").read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelNotFoundError(
                f"{directory / 'tekken.json'} is no tokenizer of Voxtral Realtime: {error}; "
                "pull the model again"
            ) from error
        told = _read(directory / MANIFEST)
        return cls(
            name=name,
            directory=directory,
            shape=shape,
            tekken=tekken,
            log_mel=LogMel(mels=shape.mels, ceiling=shape.ceiling),
            dtype=told.get("dtype"),
            delays_ms=tuple(told["delays_ms"]) if "delays_ms" in told else None,
        )

    def delay_steps(self, delay_ms: int | None) -> int:
        """
        Return the delay of a stream in steps of 80 ms.

        Raises:
            OptionError: the format, or this checkpoint, has no such delay.

        """
        if delay_ms is None:
            return self.tekken.delay_steps
        if self.delays_ms is not None and delay_ms not in self.delays_ms:
            known = ", ".join(map(str, self.delays_ms))
            raise OptionError(
                f"the model {self.name} was trained for a delay_ms of {known}, got {delay_ms}"
            )
        try:
            return self.tekken.steps_of(delay_ms)
        except ValueError as error:
            raise OptionError(f"delay_ms: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelNotFoundError(f"{path} is damaged: {error}; pull the model again") from error
    return told if isinstance(told, dict) else {}
