"""Whisper's architecture over the compact vocabulary, with the weight names of transformers."""

from __future__ import annotations

import math

from attrs import frozen
import torch
from torch import Tensor, nn
from torch.nn import functional
from vocabulary import COMPACT_SIZE

POSITIONS = 1500
ROWS = 448


@frozen(kw_only=True)
class Shape:
    """Sizes of a checkpoint; feed-forward layers are four times as wide, as engines assume."""

    width: int = 64
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 4


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.q_proj = nn.Linear(shape.width, shape.width)
        self.k_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.width)
        self.out_proj = nn.Linear(shape.width, shape.width)

    def _split(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(
        self, states: Tensor, memory: Tensor | None = None, *, is_causal: bool = False
    ) -> Tensor:
        source = states if memory is None else memory
        query, key, value = (
            self._split(self.q_proj(states)),
            self._split(self.k_proj(source)),
            self._split(self.v_proj(source)),
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
        return self.out_proj(mixed.transpose(1, 2).reshape(states.shape))

    def log_attention(self, states: Tensor, memory: Tensor, heads: int) -> Tensor:
        """Return the logarithm of the attention of the first heads."""
        query = self._split(self.q_proj(states))[:, :heads]
        key = self._split(self.k_proj(memory))[:, :heads]
        scale = query.shape[-1] ** -0.5
        return torch.log_softmax((query * scale) @ key.transpose(-1, -2), -1)

    def attend(self, states: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states after attention, and the logarithm of the attention."""
        log_attention = self.log_attention(states, memory, self.heads)
        mixed = log_attention.exp() @ self._split(self.v_proj(memory))
        return self.out_proj(mixed.transpose(1, 2).reshape(states.shape)), log_attention


class _Layer(nn.Module):
    """An encoder layer, or with `is_decoder` a decoder layer."""

    def __init__(self, shape: Shape, *, is_decoder: bool) -> None:
        super().__init__()
        self.self_attn = _Attention(shape)
        self.self_attn_layer_norm = nn.LayerNorm(shape.width)
        if is_decoder:
            self.encoder_attn = _Attention(shape)
            self.encoder_attn_layer_norm = nn.LayerNorm(shape.width)
        self.fc1 = nn.Linear(shape.width, 4 * shape.width)
        self.fc2 = nn.Linear(4 * shape.width, shape.width)
        self.final_layer_norm = nn.LayerNorm(shape.width)

    def feed_forward(self, states: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(self.final_layer_norm(states))))


class _Encoder(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(80, shape.width, 3, padding=1)
        self.conv2 = nn.Conv1d(shape.width, shape.width, 3, stride=2, padding=1)
        self.register_buffer("positions", sinusoids(shape.width), persistent=False)
        self.layers = nn.ModuleList(
            _Layer(shape, is_decoder=False) for _ in range(shape.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(shape.width)


class _Decoder(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(COMPACT_SIZE + 1, shape.width)
        self.embed_positions = nn.Embedding(ROWS, shape.width)
        self.layers = nn.ModuleList(
            _Layer(shape, is_decoder=True) for _ in range(shape.decoder_layers)
        )
        self.layer_norm = nn.LayerNorm(shape.width)


class Whisper(nn.Module):
    """An encoder and a decoder that returns the attention of its upper layers for training.

    By default, engines time words with the heads of the upper half of the decoder.
    """

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.dropout = dropout
        self.encoder = _Encoder(shape)
        self.decoder = _Decoder(shape)

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)

    def encode(self, features: Tensor, offset: int = 0) -> Tensor:
        """Return encoder states of features whose first frame lies at position `offset`."""
        encoder = self.encoder
        states = functional.gelu(encoder.conv2(functional.gelu(encoder.conv1(features)))).transpose(
            1, 2
        )
        states = self._drop(states + encoder.positions[offset : offset + states.shape[1]])
        for layer in encoder.layers:
            states = states + self._drop(layer.self_attn(layer.self_attn_layer_norm(states)))
            states = states + self._drop(layer.feed_forward(states))
        return encoder.layer_norm(states)

    def decode(self, memory: Tensor, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits, the last one for all unused tokens, and the log attentions to train.

        These are one head of the layer below the upper half, then all heads of each layer in it.
        """
        decoder, below = self.decoder, self.shape.decoder_layers // 2 - 1
        states = self._drop(
            decoder.embed_tokens(tokens) + decoder.embed_positions.weight[: tokens.shape[1]]
        )
        attentions = []
        for number, layer in enumerate(decoder.layers):
            states = states + self._drop(
                layer.self_attn(layer.self_attn_layer_norm(states), is_causal=True)
            )
            normed = layer.encoder_attn_layer_norm(states)
            if number > below:
                mixed, log_attention = layer.encoder_attn.attend(normed, memory)
                attentions.append(log_attention)
            else:
                mixed = layer.encoder_attn(normed, memory)
            if number == below:
                attentions.append(layer.encoder_attn.log_attention(normed, memory, 1))
            states = states + self._drop(mixed)
            states = states + self._drop(layer.feed_forward(states))
        return decoder.layer_norm(states) @ decoder.embed_tokens.weight.T, attentions


def sinusoids(width: int, length: int = POSITIONS) -> Tensor:
    """Return Whisper's fixed encoder positions."""
    scales = torch.exp(-math.log(10_000) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(length)[:, None] * scales[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)
