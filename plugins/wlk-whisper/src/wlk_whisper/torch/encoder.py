"""The encoder on torch: log-mel features in, the decoder's cross-attention keys and values out."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from wlk_frameworks.kv_pool import Packing
from wlk_frameworks.torch import inference
from wlk_whisper.engine.features import silence_features
from wlk_whisper.engine.network import MEL_FRAMES_PER_ENCODER_FRAME, CrossKeysValues, EncoderPass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import WhisperForConditionalGeneration

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each [rows, heads, positions, head size]."""


class TorchEncoder:
    """
    The encoder of a Whisper and its decoder's cross projections; the modules never change.

    The layers are called one by one, because transformers' own forward pass takes only windows of
    30 s.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration) -> None:
        self._whisper: Any = whisper

    def encode(self, passes: Sequence[EncoderPass]) -> list[CrossKeysValues]:
        """
        Encode float32[mels, frames] of all passes together, padded to the longest window.

        For a pass that `is_padded`, the encoder output of silence is appended, up to 30 s.
        """
        silence = self.silence.cross_kv if any(item.is_padded for item in passes) else ()
        model, device = self._whisper.model, self._whisper.device
        lengths = [item.features.shape[1] // MEL_FRAMES_PER_ENCODER_FRAME for item in passes]
        with inference(device):
            # The convolutions see zeros after a window, as they do when it is encoded alone.
            windows = pad_sequence(
                [torch.from_numpy(item.features.T.copy()) for item in passes], batch_first=True
            )
            inputs = windows.transpose(1, 2).to(device, self._whisper.dtype)
            states = functional.gelu(model.encoder.conv1(inputs))
            states = functional.gelu(model.encoder.conv2(states)).transpose(1, 2)
            states = states + model.encoder.embed_positions.weight[: states.shape[1]]
            # Windows are packed, one after the other, because padding costs as much as audio: with
            # eight windows of 5 to 9 s, padded layers took 40 % longer on a CPU.
            packing = Packing.of(lengths, device)
            states = packing.pack(states)
            mask = None
            if min(lengths) < max(lengths):
                frames = torch.arange(max(lengths), device=device)
                mask = (frames < torch.tensor(lengths, device=device)[:, None])[:, None, None]
            for layer in model.encoder.layers:
                states = _encoder_layer(layer, states, packing, mask)
            states = model.encoder.layer_norm(states)
            cross_kv = [
                (
                    _padded_heads(layer.encoder_attn.k_proj, layer.encoder_attn, states, packing),
                    _padded_heads(layer.encoder_attn.v_proj, layer.encoder_attn, states, packing),
                )
                for layer in model.decoder.layers
            ]
            return [
                _output(cross_kv, row, length, silence if item.is_padded else ())
                for row, (item, length) in enumerate(zip(passes, lengths, strict=True))
            ]

    @cached_property
    def silence(self) -> CrossKeysValues:
        """The encoder output of a window of silence."""
        config = self._whisper.config
        frames = MEL_FRAMES_PER_ENCODER_FRAME * int(config.max_source_positions)
        features = silence_features(config.num_mel_bins, frames)
        return self.encode([EncoderPass(features=features)])[0]


def _encoder_layer(
    layer: Any, states: torch.Tensor, packing: Packing, mask: torch.Tensor | None
) -> torch.Tensor:
    """Return packed *states* after a layer; *mask* is true for frames that a window has."""
    attention, normal = layer.self_attn, layer.self_attn_layer_norm(states)
    queries, keys, values = (
        _padded_heads(projection, attention, normal, packing)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    states = mlp(layer, states + attention.out_proj(packing.pack(merge_heads(mixed))))
    if states.dtype == torch.float16:  # large models overflow it (transformers #18146)
        limit = torch.finfo(states.dtype).max - 1000
        states = states.clamp(min=-limit, max=limit)
    return states


def _padded_heads(
    projection: Any, attention: Any, states: torch.Tensor, packing: Packing
) -> torch.Tensor:
    """Return a projection of packed *states* as [rows, heads, frames, head size]."""
    return split_heads(attention, packing.pad(projection(states)))


def _output(
    cross_kv: Sequence[KeysValues], row: int, length: int, silence: Sequence[KeysValues]
) -> CrossKeysValues:
    """Return the part of *cross_kv* for one window, followed by *silence* if there is any."""
    own: list[KeysValues] = [
        (keys[row : row + 1, :, :length], values[row : row + 1, :, :length])
        for keys, values in cross_kv
    ]
    if silence:
        own = [
            (
                torch.cat((keys, silent_keys[:, :, length:]), dim=2),
                torch.cat((values, silent_values[:, :, length:]), dim=2),
            )
            for (keys, values), (silent_keys, silent_values) in zip(own, silence, strict=True)
        ]
    return CrossKeysValues(frames=own[0][0].shape[2], cross_kv=tuple(own))


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
