"""The encoder on torch: log-mel features in, the decoder's cross-attention keys and values out."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from wlk_frameworks.torch import inference
from wlk_whisper.engine.features import following_silence, silence_features
from wlk_whisper.engine.network import MEL_FRAMES_PER_ENCODER_FRAME, CrossKeysValues

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration


class TorchEncoder:
    """
    The encoder of a Whisper and its decoder's cross projections; the modules never change.

    The layers are called one by one, because transformers' own forward pass takes only windows of
    30 s.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration) -> None:
        self._whisper: Any = whisper

    def encode(self, features: NDArray[np.float32], *, silence_stride: int = 0) -> CrossKeysValues:
        """Encode float32[mels, frames]; with *silence_stride* the output of silence follows."""
        silence = self.silence.cross_kv if silence_stride else ()
        model, device = self._whisper.model, self._whisper.device
        with inference(device):
            inputs = torch.from_numpy(features[None]).to(device, self._whisper.dtype)
            states = functional.gelu(model.encoder.conv1(inputs))
            states = functional.gelu(model.encoder.conv2(states)).transpose(1, 2)
            frames = states.shape[1]
            states = states + model.encoder.embed_positions.weight[:frames]
            for layer in model.encoder.layers:
                states = _encoder_layer(layer, states)
            states = model.encoder.layer_norm(states)
            cross_kv = [
                (
                    split_heads(layer.encoder_attn, layer.encoder_attn.k_proj(states)),
                    split_heads(layer.encoder_attn, layer.encoder_attn.v_proj(states)),
                )
                for layer in model.decoder.layers
            ]
            if silence:
                kept = following_silence(frames, silence_stride)
                cross_kv = [
                    (
                        torch.cat((keys, silent_keys[:, :, kept]), dim=2),
                        torch.cat((values, silent_values[:, :, kept]), dim=2),
                    )
                    for (keys, values), (silent_keys, silent_values) in zip(
                        cross_kv, silence, strict=True
                    )
                ]
        return CrossKeysValues(frames=cross_kv[0][0].shape[2], cross_kv=tuple(cross_kv))

    @cached_property
    def silence(self) -> CrossKeysValues:
        """The encoder output of a window of silence."""
        config = self._whisper.config
        frames = MEL_FRAMES_PER_ENCODER_FRAME * int(config.max_source_positions)
        features = silence_features(config.num_mel_bins, frames)
        return self.encode(features)


def _encoder_layer(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """Return *states* after a layer."""
    attention, normal = layer.self_attn, layer.self_attn_layer_norm(states)
    queries, keys, values = (
        split_heads(attention, projection(normal))
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    mixed = functional.scaled_dot_product_attention(queries, keys, values)
    states = mlp(layer, states + attention.out_proj(merge_heads(mixed)))
    if states.dtype == torch.float16:  # large models overflow it (transformers #18146)
        limit = torch.finfo(states.dtype).max - 1000
        states = states.clamp(min=-limit, max=limit)
    return states


def mlp(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """Return *states* after the feed-forward part of a layer."""
    normal = layer.final_layer_norm(states)
    output: torch.Tensor = states + layer.fc2(layer.activation_fn(layer.fc1(normal)))
    return output


def split_heads(attention: Any, states: torch.Tensor) -> torch.Tensor:
    """Return [rows, positions, width] as [rows, heads, positions, head size]."""
    rows, positions, _ = states.shape
    return states.view(rows, positions, attention.num_heads, -1).transpose(1, 2)


def merge_heads(states: torch.Tensor) -> torch.Tensor:
    """Return [rows, heads, positions, head size] as [rows, positions, width]."""
    return states.transpose(1, 2).flatten(2)
