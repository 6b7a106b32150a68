"""Read the sizes and the config of a checkpoint in any of its four layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from msgspec import convert

from wlk_core.errors import ModelNotFoundError
from wlk_frameworks.checkpoints import read_json_table, read_safetensors_headers, shard_names
from wlk_frameworks.features import LogMel
from wlk_voxtral.checkpoint import CheckpointConfig
from wlk_voxtral.sizes import (
    MISTRAL,
    TRANSFORMERS,
    ConfigSchema,
    Quantization,
    StackKeys,
    check_config,
)

if TYPE_CHECKING:
    from pathlib import Path

MISTRAL_WEIGHTS = "consolidated.safetensors"
# Those of the published model; some configurations leave them out.
ENCODER_WINDOW, DECODER_WINDOW = 750, 8192
ROPE_THETA = 1_000_000.0
TRANSFORMERS_ROPE_THETA = 10_000.0  # the default of transformers' configuration


@attrs.frozen(kw_only=True)
class TransformerConfig:
    """The sizes of a stack of transformer layers; `window` counts the positions attended to."""

    width: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    hidden: int
    window: int
    rope_theta: float = ROPE_THETA
    norm_eps: float = 1e-5


@attrs.frozen(kw_only=True)
class ModelConfig:
    """The sizes of a whole model."""

    encoder: TransformerConfig
    decoder: TransformerConfig
    vocabulary: int
    mels: int = 128
    ceiling: float = 1.5  #: log10 mel energy
    downsampling: int = 4  #: encoder frames in a step
    condition: int = 32  #: inner width of the adaptive norm that takes the delay
    quantization: Quantization | None = None

    @classmethod
    def read(cls, config: dict[str, Any]) -> ModelConfig:
        """
        Read a params.json of Mistral, or a config.json of voxmlx, mlx-audio or transformers.

        Raises:
            ValueError: the configuration has another layout, or lacks a size.

        """
        convert(config, ConfigSchema)
        try:
            if "multimodal" in config:
                whisper = config["multimodal"]["whisper_model_args"]
                factor = whisper.get("downsample_args", {}).get("downsample_factor", 4)
                sizes = _mistral(config, whisper["encoder_args"], factor)
            elif "encoder_args" in config:
                encoder = config["encoder_args"]
                sizes = _mistral(config["decoder"], encoder, encoder.get("downsample_factor", 4))
            elif "audio_config" in config:
                sizes = _transformers(config)
            else:
                raise ValueError("it contains neither multimodal, encoder_args nor audio_config")
            packing = config.get("quantization") or config.get("quantization_config")
            if packing is None:
                return sizes
            return attrs.evolve(sizes, quantization=convert(packing, Quantization))
        except (ArithmeticError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def read_checkpoint(directory: Path, *, name: str) -> tuple[ModelConfig, CheckpointConfig]:
    """
    Return the sizes of the model in *directory*, and what streams need to know about it.

    Of the weights only the headers are read.

    Raises:
        ModelNotFoundError: it contains no Voxtral Realtime model, or its files contradict each
            other.

    """
    # Mistral's repository has both layouts: weights and configuration are read from the same one.
    is_mistral = (directory / MISTRAL_WEIGHTS).is_file()
    file = directory / ("params.json" if is_mistral else "config.json")
    if not file.is_file() or not any(directory.glob("*.safetensors")):
        names = sorted(entry.name for entry in directory.iterdir())[:6]
        raise ModelNotFoundError(
            "expected a Voxtral Realtime model (consolidated.safetensors and params.json, or "
            "model.safetensors and config.json, and tekken.json) in "
            f"{directory}, found {', '.join(names) or 'nothing'}; get one with: "
            "wlk-core pull mini-6bit --backend voxtral-mlx"
        )
    table = read_json_table(file)
    try:
        config = ModelConfig.read(table)
    except ValueError as error:
        raise ModelNotFoundError(
            f"{file} does not describe a Voxtral Realtime model that can be loaded: {error}; get "
            "one with: wlk-core pull mini-6bit --backend voxtral-mlx"
        ) from error
    check_config(table, read_safetensors_headers(weight_files(directory)), path=file)
    log_mel = LogMel(mels=config.mels, ceiling=config.ceiling)
    checkpoint = CheckpointConfig.read(directory, name=name, log_mel=log_mel, config_file=file)
    checkpoint.require_vocabulary(config.vocabulary, file=file)
    return config, checkpoint


def weight_files(directory: Path) -> list[Path]:
    """
    Return the weight files in *directory*: Mistral's, the shards of an index, or model*.

    Raises:
        ModelNotFoundError: the index is damaged, or there are no weights.

    """
    if (directory / MISTRAL_WEIGHTS).is_file():
        return [directory / MISTRAL_WEIGHTS]
    names = shard_names(directory / "model.safetensors.index.json")
    files = [directory / name for name in names] or sorted(directory.glob("model*.safetensors"))
    if not files:
        raise ModelNotFoundError(
            f"{directory} has neither {MISTRAL_WEIGHTS} nor model.safetensors; pull the model again"
        )
    return files


def _mistral(decoder: dict[str, Any], encoder: dict[str, Any], factor: int) -> ModelConfig:
    audio = encoder.get("audio_encoding_args", {})
    return ModelConfig(
        encoder=_stack(encoder, MISTRAL, ENCODER_WINDOW, ROPE_THETA),
        decoder=_stack(decoder, MISTRAL, DECODER_WINDOW, ROPE_THETA),
        vocabulary=int(decoder["vocab_size"]),
        mels=int(audio.get("num_mel_bins", 128)),
        ceiling=float(audio.get("global_log_mel_max", 1.5)),
        downsampling=int(factor),
        condition=int(decoder.get("ada_rms_norm_t_cond_dim", 32)),
    )


def _transformers(config: dict[str, Any]) -> ModelConfig:
    audio, text = config["audio_config"], config["text_config"]
    return ModelConfig(
        encoder=_stack(audio, TRANSFORMERS, ENCODER_WINDOW, TRANSFORMERS_ROPE_THETA),
        decoder=_stack(text, TRANSFORMERS, DECODER_WINDOW, TRANSFORMERS_ROPE_THETA),
        vocabulary=int(text["vocab_size"]),
        mels=int(audio.get("num_mel_bins", 128)),
        downsampling=int(config.get("downsample_factor", 4)),
    )


def _stack(
    sizes: dict[str, Any], keys: StackKeys, window: int, rope_theta: float
) -> TransformerConfig:
    """Read the sizes of a stack under *keys*; *window* and *rope_theta* are its defaults."""
    rope = sizes.get("rope_parameters") or {}
    heads = int(sizes[keys.heads])
    return TransformerConfig(
        width=int(sizes[keys.width]),
        layers=int(sizes[keys.layers]),
        heads=heads,
        key_heads=int(sizes.get(keys.key_heads) or heads),
        head_size=int(sizes.get(keys.head_size) or sizes[keys.width] // heads),
        hidden=int(sizes[keys.hidden]),
        window=int(sizes.get("sliding_window") or window),  # a string in some files
        rope_theta=float(rope.get("rope_theta") or sizes.get("rope_theta") or rope_theta),
        norm_eps=float(sizes.get(keys.norm_eps, 1e-5)),
    )
