"""A checkpoint in transformers' format, in the names and the layout of mlx-whisper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mlx.core as mx

__all__ = ["convert_config", "convert_weights", "find_unsupported", "is_transformers_format"]

#: Keys of mlx-whisper's ModelDimensions and of transformers' WhisperConfig.
_CONFIG_KEYS = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}

#: What the modules of mlx-whisper are built for; other values would give other numbers.
_REQUIRED = {"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True}

#: Names of transformers and of mlx-whisper, replaced in this order.
_NAMES = (
    ("model.", ""),
    ("layers.", "blocks."),
    ("fc1", "mlp1"),
    ("fc2", "mlp2"),
    ("final_layer_norm", "mlp_ln"),
    (".self_attn.q_proj", ".attn.query"),
    (".self_attn.k_proj", ".attn.key"),
    (".self_attn.v_proj", ".attn.value"),
    (".self_attn.out_proj", ".attn.out"),
    ("self_attn_layer_norm", "attn_ln"),
    (".encoder_attn.q_proj", ".cross_attn.query"),
    (".encoder_attn.k_proj", ".cross_attn.key"),
    (".encoder_attn.v_proj", ".cross_attn.value"),
    (".encoder_attn.out_proj", ".cross_attn.out"),
    ("encoder_attn_layer_norm", "cross_attn_ln"),
    ("decoder.layer_norm.", "decoder.ln."),
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.embed_tokens", "decoder.token_embedding"),
    ("decoder.embed_positions.weight", "decoder.positional_embedding"),
)
# The tied output projection, and sinusoids that mlx-whisper computes itself.
_COMPUTED = {"proj_out.weight", "model.encoder.embed_positions.weight"}


def is_transformers_format(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json is that of a Whisper in transformers' format."""
    return config.get("model_type") == "whisper" and "d_model" in config


def find_unsupported(config: Mapping[str, Any]) -> str | None:
    """Return which part of the model mlx-whisper's modules do not compute, None if they do."""
    for key, required in _REQUIRED.items():
        if (value := config.get(key, required)) != required:
            return f"its config.json has {key}={value!r}, and MLX runs {required!r} only"
    return None


def convert_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dimensions by mlx-whisper's names, None where the config lacks one."""
    return {ours: config.get(theirs) for ours, theirs in _CONFIG_KEYS.items()}


def convert_weights(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Return the weights by mlx-whisper's names; its convolutions have their channels last."""
    converted: dict[str, mx.array] = {}
    for name, weight in weights.items():
        if name in _COMPUTED:
            continue
        is_convolution = name.endswith((".conv1.weight", ".conv2.weight"))
        converted[_rename(name)] = weight.transpose(0, 2, 1) if is_convolution else weight
    return converted


def _rename(name: str) -> str:
    for theirs, ours in _NAMES:
        name = name.replace(theirs, ours)
    return name
