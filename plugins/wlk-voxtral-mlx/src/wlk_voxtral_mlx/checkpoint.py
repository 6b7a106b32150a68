"""A checkpoint directory in any of its four layouts, and the sizes of its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from msgspec import convert

from wlk_core.errors import ModelNotFoundError
from wlk_core.models import read_json_table
from wlk_core.streaming import LogMel
from wlk_voxtral.checkpoint import CheckpointSettings
from wlk_voxtral_mlx.mlx.sizes import ConfigSchema, check_config, weight_files

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ModelConfig", "Quantization", "TransformerConfig", "read_checkpoint"]

# Of the published model; some configurations leave them out.
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
class Quantization:
    """The packing of weights: each group of `group_size` shares a scale and a bias."""

    bits: int
    group_size: int


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
            return attrs.evolve(sizes, quantization=_quantization(packing))
        except (ArithmeticError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def read_checkpoint(directory: Path, *, name: str) -> tuple[ModelConfig, CheckpointSettings]:
    """
    Return the sizes of the model in *directory* and what streams need to know of it.

    Of the weights only the header is read.

    Raises:
        ModelNotFoundError: it contains no Voxtral Realtime model, or its files contradict each
            other.

    """
    # Mistral's repository has both layouts: weights and configuration are read from the same one.
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
    table = read_json_table(file)
    try:
        config = ModelConfig.read(table)
    except ValueError as error:
        raise ModelNotFoundError(
            f"{file} describes no Voxtral Realtime model that can be loaded: {error}; get one "
            "with: wlk-core pull mini-6bit --backend voxtral-mlx"
        ) from error
    check_config(table, weight_files(directory), path=file)
    log_mel = LogMel(mels=config.mels, ceiling=config.ceiling)
    settings = CheckpointSettings.read(directory, name=name, log_mel=log_mel)
    settings.require_vocabulary(config.vocabulary, file=file)
    return config, settings


def _mistral(decoder: dict[str, Any], encoder: dict[str, Any], factor: int) -> ModelConfig:
    audio = encoder.get("audio_encoding_args", {})
    return ModelConfig(
        encoder=_mistral_stack(encoder, ENCODER_WINDOW),
        decoder=_mistral_stack(decoder, DECODER_WINDOW),
        vocabulary=int(decoder["vocab_size"]),
        mels=int(audio.get("num_mel_bins", 128)),
        ceiling=float(audio.get("global_log_mel_max", 1.5)),
        downsampling=int(factor),
        condition=int(decoder.get("ada_rms_norm_t_cond_dim", 32)),
    )


def _mistral_stack(sizes: dict[str, Any], window: int) -> TransformerConfig:
    return TransformerConfig(
        width=int(sizes["dim"]),
        layers=int(sizes["n_layers"]),
        heads=int(sizes["n_heads"]),
        key_heads=int(sizes.get("n_kv_heads") or sizes["n_heads"]),
        head_size=int(sizes["head_dim"]),
        hidden=int(sizes["hidden_dim"]),
        window=int(sizes.get("sliding_window") or window),  # some files write it as text
        rope_theta=float(sizes.get("rope_theta", ROPE_THETA)),
        norm_eps=float(sizes.get("norm_eps", 1e-5)),
    )


def _transformers(config: dict[str, Any]) -> ModelConfig:
    audio, text = config["audio_config"], config["text_config"]
    return ModelConfig(
        encoder=_transformers_stack(audio, ENCODER_WINDOW),
        decoder=_transformers_stack(text, DECODER_WINDOW),
        vocabulary=int(text["vocab_size"]),
        mels=int(audio.get("num_mel_bins", 128)),
        downsampling=int(config.get("downsample_factor", 4)),
    )


def _transformers_stack(sizes: dict[str, Any], window: int) -> TransformerConfig:
    rope = sizes.get("rope_parameters") or {}
    heads = int(sizes["num_attention_heads"])
    theta = rope.get("rope_theta") or sizes.get("rope_theta") or TRANSFORMERS_ROPE_THETA
    return TransformerConfig(
        width=int(sizes["hidden_size"]),
        layers=int(sizes["num_hidden_layers"]),
        heads=heads,
        key_heads=int(sizes.get("num_key_value_heads") or heads),
        head_size=int(sizes.get("head_dim") or sizes["hidden_size"] // heads),
        hidden=int(sizes["intermediate_size"]),
        window=int(sizes.get("sliding_window") or window),
        rope_theta=float(theta),
        norm_eps=float(sizes.get("rms_norm_eps", 1e-5)),
    )


def _quantization(packing: dict[str, Any]) -> Quantization:
    bits, group = int(packing["bits"]), int(packing["group_size"])
    mode = packing.get("mode", "affine")
    if bits not in (2, 3, 4, 5, 6, 8) or group not in (32, 64, 128) or mode != "affine":
        raise ValueError(
            f"its quantization is {mode}, {bits} bits in groups of {group}; expected affine, "
            "2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128"
        )
    return Quantization(bits=bits, group_size=group)
