"""The sizes of a model, out of the three kinds of configuration that its layouts bring."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["AttentionShape", "Quantization", "Shape"]

ENCODER_WINDOW, DECODER_WINDOW = 750, 8192  # of the published model, where a file is silent
SILENT_THETA = 10_000.0  # what transformers takes then; the published model has 1 000 000


@attrs.frozen(kw_only=True)
class AttentionShape:
    """A stack of transformer layers, and how far back each position looks."""

    width: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    hidden: int
    window: int
    rope_theta: float = 1_000_000.0
    norm_eps: float = 1e-5


@attrs.frozen(kw_only=True)
class Quantization:
    """How weights are packed: groups of so many share a scale and a bias."""

    bits: int
    group_size: int


@attrs.frozen(kw_only=True)
class Shape:
    """A whole model."""

    encoder: AttentionShape
    decoder: AttentionShape
    vocabulary: int
    mels: int = 128
    ceiling: float = 1.5  #: log10 mel energy
    downsampling: int = 4
    condition: int = 32  #: width of the delay's way through each layer
    quantization: Quantization | None = None

    @classmethod
    def read(cls, config: dict[str, Any]) -> Shape:
        """
        Read a params.json of Mistral, or a config.json of voxmlx, mlx-audio or transformers.

        Raises:
            ValueError: it is none of them.

        """
        try:
            if "multimodal" in config:
                whisper = config["multimodal"]["whisper_model_args"]
                factor = whisper.get("downsample_args", {}).get("downsample_factor", 4)
                shape = _mistral(config, whisper["encoder_args"], factor)
            elif "encoder_args" in config:
                encoder = config["encoder_args"]
                shape = _mistral(config["decoder"], encoder, encoder.get("downsample_factor", 4))
            elif "audio_config" in config:
                shape = _transformers(config)
            else:
                raise ValueError("it has none of multimodal, encoder_args and audio_config")
            told = config.get("quantization") or config.get("quantization_config")
            if told is None:
                return shape
            return attrs.evolve(shape, quantization=_quantization(told))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _mistral(decoder: dict[str, Any], encoder: dict[str, Any], factor: int) -> Shape:
    audio = encoder.get("audio_encoding_args", {})
    return Shape(
        encoder=_stack(encoder, ENCODER_WINDOW),
        decoder=_stack(decoder, DECODER_WINDOW),
        vocabulary=int(decoder["vocab_size"]),
        mels=int(audio.get("num_mel_bins", 128)),
        ceiling=float(audio.get("global_log_mel_max", 1.5)),
        downsampling=int(factor),
        condition=int(decoder.get("ada_rms_norm_t_cond_dim", 32)),
    )


def _stack(told: dict[str, Any], window: int) -> AttentionShape:
    return AttentionShape(
        width=int(told["dim"]),
        layers=int(told["n_layers"]),
        heads=int(told["n_heads"]),
        key_heads=int(told.get("n_kv_heads") or told["n_heads"]),
        head_size=int(told["head_dim"]),
        hidden=int(told["hidden_dim"]),
        window=int(told.get("sliding_window") or window),  # some files hold it as text
        rope_theta=float(told.get("rope_theta", 1_000_000.0)),
        norm_eps=float(told.get("norm_eps", 1e-5)),
    )


def _transformers(config: dict[str, Any]) -> Shape:
    audio, text = config["audio_config"], config["text_config"]
    return Shape(
        encoder=_layers(audio, ENCODER_WINDOW),
        decoder=_layers(text, DECODER_WINDOW),
        vocabulary=int(text["vocab_size"]),
        mels=int(audio.get("num_mel_bins", 128)),
        downsampling=int(config.get("downsample_factor", 4)),
    )


def _layers(told: dict[str, Any], window: int) -> AttentionShape:
    rope = told.get("rope_parameters") or {}
    heads = int(told["num_attention_heads"])
    return AttentionShape(
        width=int(told["hidden_size"]),
        layers=int(told["num_hidden_layers"]),
        heads=heads,
        key_heads=int(told.get("num_key_value_heads") or heads),
        head_size=int(told.get("head_dim") or told["hidden_size"] // heads),
        hidden=int(told["intermediate_size"]),
        window=int(told.get("sliding_window") or window),
        rope_theta=float(rope.get("rope_theta") or told.get("rope_theta") or SILENT_THETA),
        norm_eps=float(told.get("rms_norm_eps", 1e-5)),
    )


def _quantization(told: dict[str, Any]) -> Quantization:
    bits, group = int(told["bits"]), int(told["group_size"])
    mode = told.get("mode", "affine")
    if bits not in (2, 3, 4, 5, 6, 8) or group not in (32, 64, 128) or mode != "affine":
        raise ValueError(
            f"its quantization is {mode}, {bits} bits in groups of {group}; expected affine, "
            "2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128"
        )
    return Quantization(bits=bits, group_size=group)
