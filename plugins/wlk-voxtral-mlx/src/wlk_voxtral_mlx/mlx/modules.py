"""The weights as a tree of MLX modules, under the names of the voxmlx layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlx import nn
import mlx.core as mx

if TYPE_CHECKING:
    from wlk_voxtral_mlx.checkpoint import ModelConfig, TransformerConfig

KERNEL = 3  # width of both convolutions
TIME_THETA = 10_000.0


class Convolution(nn.Module):
    """Weights of a causal convolution, [out, 3, in]; the caller pads its input."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, KERNEL, inputs))
        self.bias = mx.zeros((outputs,))


class Attention(nn.Module):
    """The projections of an attention layer; the caller applies caches and windows."""

    def __init__(self, config: TransformerConfig, *, has_bias: bool) -> None:
        super().__init__()
        queries, keys = config.heads * config.head_size, config.key_heads * config.head_size
        self.head_dim = config.head_size
        self.rope_theta = config.rope_theta
        self.q_proj = nn.Linear(config.width, queries, bias=has_bias)
        self.k_proj = nn.Linear(config.width, keys, bias=False)
        self.v_proj = nn.Linear(config.width, keys, bias=has_bias)
        self.o_proj = nn.Linear(queries, config.width, bias=has_bias)


class FeedForward(nn.Module):
    """The projections of a SwiGLU feed-forward layer."""

    def __init__(self, config: TransformerConfig, *, has_bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=has_bias)


class AdaptiveNorm(nn.Module):
    """The projections of the embedded delay to a scale for the input of a feed-forward layer."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.linear_in = nn.Linear(width, condition, bias=False)
        self.linear_out = nn.Linear(condition, width, bias=False)


class Layer(nn.Module):
    """A transformer layer; a `condition` width above 0 conditions it on the delay."""

    def __init__(self, config: TransformerConfig, *, has_bias: bool, condition: int = 0) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.attention = Attention(config, has_bias=has_bias)
        self.ffn_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.mlp = FeedForward(config, has_bias=has_bias)
        if condition:
            self.ada_norm = AdaptiveNorm(config.width, condition)


class Encoder(nn.Module):
    """The encoder: convolutions and causal layers, with 50 frames per second."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        stack = config.encoder
        self.conv1 = Convolution(config.mels, stack.width)
        self.conv2 = Convolution(stack.width, stack.width)
        self.layers = [Layer(stack, has_bias=True) for _ in range(stack.layers)]
        self.norm = nn.RMSNorm(stack.width, eps=stack.norm_eps)


class Adapter(nn.Module):
    """The projection of the encoder frames of a step to its audio embedding."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.decoder.width
        self.w_in = nn.Linear(config.encoder.width * config.downsampling, width, bias=False)
        self.w_out = nn.Linear(width, width, bias=False)


class LanguageModel(nn.Module):
    """The decoder; its embedding is also its output layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        stack = config.decoder
        self.embed_tokens = nn.Embedding(config.vocabulary, stack.width)
        self.layers = [
            Layer(stack, has_bias=False, condition=config.condition) for _ in range(stack.layers)
        ]
        self.norm = nn.RMSNorm(stack.width, eps=stack.norm_eps)


class Voxtral(nn.Module):
    """All weights of a model, and the embedding of its delay."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.adapter = Adapter(config)
        self.language_model = LanguageModel(config)
        self._width = config.decoder.width

    def time_embedding(self, delay: mx.array) -> mx.array:
        """Return the embedding of a delay in steps, float32[1, width]: cosines, then sines."""
        half = self._width // 2
        rates = mx.exp(-math.log(TIME_THETA) * mx.arange(half, dtype=mx.float32) / half)
        angles = delay.reshape(-1, 1).astype(mx.float32) * rates
        return mx.concatenate([mx.cos(angles), mx.sin(angles)], axis=-1)
