"""The architecture of the digits checkpoint: Voxtral Realtime as transformers has it, but small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from batches_voxtral import BOS_ID, EOS_ID, TEKKEN
import torch
from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

if TYPE_CHECKING:
    from pathlib import Path

ROPE_THETA = 1_000_000.0
TEXT_PAD_ID = 11


@frozen(kw_only=True)
class VoxtralShape:
    """
    Sizes of a checkpoint.

    Both windows are short (2 s of encoder frames, 5 s of steps), so that streams of any length look
    alike to the model, and a backend that ignores a window fails its tests.
    """

    width: int = 96
    heads: int = 4
    key_heads: int = 2  # of the decoder
    hidden: int = 256
    encoder_layers: int = 3
    decoder_layers: int = 2
    encoder_window: int = 100
    decoder_window: int = 64

    def config(self) -> VoxtralRealtimeConfig:
        """Return the configuration of transformers."""
        size = TEKKEN["config"]["default_vocab_size"]
        common = {
            "vocab_size": size,
            "hidden_size": self.width,
            "intermediate_size": self.hidden,
            "num_attention_heads": self.heads,
            "head_dim": self.width // self.heads,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
        }
        return VoxtralRealtimeConfig(
            audio_config={
                **common,
                "model_type": "voxtral_realtime_encoder",
                "num_hidden_layers": self.encoder_layers,
                "num_mel_bins": 128,
                "sliding_window": self.encoder_window,
            },
            text_config={
                **common,
                "model_type": "voxtral_realtime_text",
                "num_hidden_layers": self.decoder_layers,
                "num_key_value_heads": self.key_heads,
                "sliding_window": self.decoder_window,
                "max_position_embeddings": 131_072,
                "bos_token_id": BOS_ID,
                "eos_token_id": EOS_ID,
                "pad_token_id": TEXT_PAD_ID,
            },
        )


def build_model(shape: VoxtralShape) -> VoxtralRealtimeForConditionalGeneration:
    """Return a model with initial weights of a size from which small models learn."""
    model = VoxtralRealtimeForConditionalGeneration(shape.config())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                spread = 0.05 if "embed_tokens" in name else weight[0].numel() ** -0.5
                weight.normal_(0, spread)
    return model


def load_model(folder: Path) -> VoxtralRealtimeForConditionalGeneration:
    """Return the model of a folder in float32."""
    return VoxtralRealtimeForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
