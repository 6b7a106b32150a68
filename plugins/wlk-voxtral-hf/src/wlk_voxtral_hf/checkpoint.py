"""A checkpoint directory in the layout of transformers, and what it says beside its weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core import ModelNotFoundError, OptionError
from wlk_core.streaming import LogMel, Tekken

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkpoint"]

MANIFEST = "wlk.json"
CEILING = 1.5  # log10 mel energy: the feature extractor's own default


@attrs.frozen(kw_only=True, eq=False)
class Checkpoint:
    """
    What streams need to know of a checkpoint.

    A ``wlk.json`` beside the weights may name the dtype a checkpoint wants and the delays it was
    trained for; others are held to the format alone.
    """

    name: str
    directory: Path
    tekken: Tekken
    log_mel: LogMel
    dtype: str | None = None
    delays_ms: tuple[int, ...] | None = None

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """
        Read *directory*.

        Raises:
            ModelNotFoundError: it holds no Voxtral Realtime model in the layout of transformers.

        """
        config = _config(directory)
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
        features = _read(directory / "processor_config.json").get("feature_extractor") or _read(
            directory / "preprocessor_config.json"
        )
        return cls(
            name=name,
            directory=directory,
            tekken=tekken,
            log_mel=LogMel(
                mels=config.get("audio_config", {}).get("num_mel_bins", 128),
                ceiling=features.get("global_log_mel_max", CEILING),
            ),
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


def _config(directory: Path) -> dict[str, Any]:
    config = _read(directory / "config.json")
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
    told = config.get("quantization_config") or config.get("quantization")
    if told is None:
        return
    method = told.get("quant_method") if isinstance(told, dict) else None
    raise ModelNotFoundError(
        f"the weights in {directory} are quantized ({method or json.dumps(told)[:60]}), which the "
        "backend voxtral-hf does not read; take a model in bfloat16, or one in 4 or 6 bits with: "
        "wlk-core pull mini-4bit --backend voxtral-mlx"
    )


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelNotFoundError(f"{path} is damaged: {error}; pull the model again") from error
    return told if isinstance(told, dict) else {}
