"""The model as a tree of MLX modules, under the names of the converted layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlx import nn
import mlx.core as mx

if TYPE_CHECKING:
    from wlk_voxtral_mlx.shape import AttentionShape, Shape

__all__ = ["Voxtral"]

KERNEL = 3  # of both convolutions
TIME_THETA = 10_000.0


class Convolution(nn.Module):
    """Weights of a causal convolution, [out, 3, in]; the caller pads."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, KERNEL, inputs))
        self.bias = mx.zeros((outputs,))


class Attention(nn.Module):
    """The projections of an attention layer; caches and windows are the caller's."""

    def __init__(self, shape: AttentionShape, *, has_bias: bool) -> None:
        super().__init__()
        queries, keys = shape.heads * shape.head_size, shape.key_heads * shape.head_size
        self.n_heads, self.n_kv_heads, self.head_dim = shape.heads, shape.key_heads, shape.head_size
        self.rope_theta = shape.rope_theta
        self.q_proj = nn.Linear(shape.width, queries, bias=has_bias)
        self.k_proj = nn.Linear(shape.width, keys, bias=False)
        self.v_proj = nn.Linear(shape.width, keys, bias=has_bias)
        self.o_proj = nn.Linear(queries, shape.width, bias=has_bias)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: AttentionShape, *, has_bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=has_bias)

    def __call__(self, states: mx.array) -> mx.array:
        """Return [..., width] of [..., width]."""
        return self.down_proj(nn.silu(self.gate_proj(states)) * self.up_proj(states))


class Condition(nn.Module):
    """How the delay scales what enters a feed-forward layer."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.linear_in = nn.Linear(width, condition, bias=False)
        self.linear_out = nn.Linear(condition, width, bias=False)

    def __call__(self, delay: mx.array) -> mx.array:
        """Return [1, width] of the embedded delay."""
        return self.linear_out(nn.gelu(self.linear_in(delay)))


class Layer(nn.Module):
    """A transformer layer, conditioned on the delay where `condition` has a width."""

    def __init__(self, shape: AttentionShape, *, has_bias: bool, condition: int = 0) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(shape.width, eps=shape.norm_eps)
        self.attention = Attention(shape, has_bias=has_bias)
        self.ffn_norm = nn.RMSNorm(shape.width, eps=shape.norm_eps)
        self.mlp = FeedForward(shape, has_bias=has_bias)
        if condition:
            self.ada_norm = Condition(shape.width, condition)


class Encoder(nn.Module):
    """Convolutions and causal layers; 50 frames a second."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        stack = shape.encoder
        self.conv1 = Convolution(shape.mels, stack.width)
        self.conv2 = Convolution(stack.width, stack.width)
        self.layers = [Layer(stack, has_bias=True) for _ in range(stack.layers)]
        self.norm = nn.RMSNorm(stack.width, eps=stack.norm_eps)


class Adapter(nn.Module):
    """Four frames of the encoder become the audio of one step."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.decoder.width
        self.w_in = nn.Linear(shape.encoder.width * shape.downsampling, width, bias=False)
        self.w_out = nn.Linear(width, width, bias=False)

    def __call__(self, frames: mx.array) -> mx.array:
        """Return [n, width] of [n, 4 * encoder width]."""
        return self.w_out(nn.gelu(self.w_in(frames)))


class LanguageModel(nn.Module):
    """The decoder; its embedding is its output too."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        stack = shape.decoder
        self.embed_tokens = nn.Embedding(shape.vocabulary, stack.width)
        self.layers = [
            Layer(stack, has_bias=False, condition=shape.condition) for _ in range(stack.layers)
        ]
        self.norm = nn.RMSNorm(stack.width, eps=stack.norm_eps)


class Voxtral(nn.Module):
    """All weights of a model, and the embedding of its delay."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = Encoder(shape)
        self.adapter = Adapter(shape)
        self.language_model = LanguageModel(shape)
        self._width = shape.decoder.width

    def time_embedding(self, delay: mx.array) -> mx.array:
        """Return float32[1, width] of a delay in steps: cosines, then sines."""
        half = self._width // 2
        rates = mx.exp(-math.log(TIME_THETA) * mx.arange(half, dtype=mx.float32) / half)
        angles = delay.reshape(-1, 1).astype(mx.float32) * rates
        return mx.concatenate([mx.cos(angles), mx.sin(angles)], axis=-1)
