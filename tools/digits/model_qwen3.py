"""The architecture of the digits checkpoint: Qwen3-ASR as transformers has it, but small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen
from features_qwen3 import MELS
import torch
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration
from vocabulary_qwen3 import COMPACT_SIZE, END, PAD

if TYPE_CHECKING:
    from pathlib import Path

ROPE_THETA = 1_000_000.0
_EMBEDDING_SPREAD = 0.08


@frozen(kw_only=True)
class Qwen3Shape:
    """
    Sizes of a checkpoint; windows and strides are those of the real models.

    The encoder convolves each second separately and numbers positions from 0 in each, so it cannot
    tell the order of seconds.  Words that lie across two of them are put together by the decoder,
    which is why that has more layers.
    """

    width: int = 96
    channels: int = 32
    encoder_heads: int = 4
    encoder_layers: int = 2
    heads: int = 4
    key_heads: int = 2
    head_size: int = 32
    decoder_layers: int = 4
    hidden: int = 256

    def audio_config(self) -> dict[str, Any]:
        """Return the encoder's sizes under the names of the format."""
        return {
            "num_mel_bins": MELS,
            "encoder_layers": self.encoder_layers,
            "encoder_attention_heads": self.encoder_heads,
            "encoder_ffn_dim": self.hidden,
            "d_model": self.width,
            "output_dim": self.width,
            "n_window": 50,
            "n_window_infer": 800,
            "downsample_hidden_size": self.channels,
            "activation_function": "gelu",
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "scale_embedding": False,
        }

    def text_config(self, vocabulary: int) -> dict[str, Any]:
        """Return the decoder's sizes under the names of the format."""
        return {
            "vocab_size": vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.hidden,
            "num_hidden_layers": self.decoder_layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_size,
            "hidden_act": "silu",
            "max_position_embeddings": 65_536,
            "rms_norm_eps": 1e-6,
            "attention_bias": False,
            "tie_word_embeddings": True,
        }

    def compact_config(self) -> Qwen3ASRConfig:
        """Return the configuration of transformers over the compact vocabulary."""
        return Qwen3ASRConfig(
            audio_config={**self.audio_config(), "model_type": "qwen3_asr_encoder"},
            text_config={
                **self.text_config(COMPACT_SIZE),
                "model_type": "qwen3",
                "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
            },
            audio_token_id=PAD,
            pad_token_id=END,
            eos_token_id=END,
        )


def build_model(shape: Qwen3Shape) -> Qwen3ASRForConditionalGeneration:
    """Return a model with initial weights of a size from which small models learn."""
    model = Qwen3ASRForConditionalGeneration(shape.compact_config())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                fan_in = weight[0].numel()
                weight.normal_(0, _EMBEDDING_SPREAD if "embed_tokens" in name else fan_in**-0.5)
    return _prepared(model)


def load_model(folder: Path) -> Qwen3ASRForConditionalGeneration:
    """Return the model that was stored in a folder."""
    return _prepared(Qwen3ASRForConditionalGeneration.from_pretrained(folder, dtype=torch.float32))


def _prepared(model: Qwen3ASRForConditionalGeneration) -> Qwen3ASRForConditionalGeneration:
    """Make the decoder return its attention, and lay out convolutions as CPUs run them fastest."""
    model.set_attn_implementation({"audio_config": "sdpa", "text_config": "eager"})
    tower = model.model.audio_tower
    for convolution in (tower.conv2d1, tower.conv2d2, tower.conv2d3):
        convolution.to(memory_format=torch.channels_last)
    return model
