"""Run Whisper's layers on torch with transformers' modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from wlk_frameworks.kv_pool import AttentionPass, KVPool
from wlk_frameworks.torch import inference
from wlk_whisper.engine.network import DecoderOutput
from wlk_whisper.torch.encoder import TorchEncoder, merge_heads, mlp, split_heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration

    from wlk_whisper.engine.alignment_heads import Heads
    from wlk_whisper.engine.network import CrossKeysValues

NO_WINDOW = 1 << 40  # positions; more than a decoder has


class TorchNetwork:
    """
    A Whisper on torch, shared by all streams; see Network.

    The modules never change.  Their layers are called one by one, because transformers' own forward
    pass returns no attention from a fused kernel.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration, *, alignment_heads: Heads) -> None:
        self._whisper: Any = whisper
        self.alignment_heads = alignment_heads
        self.encoder = TorchEncoder(whisper)
        self.n_mels = int(whisper.config.num_mel_bins)
        self.n_vocab = int(whisper.config.vocab_size)
        self.n_text_ctx = int(whisper.config.max_target_positions)

    def encode(self, features: NDArray[np.float32], *, silence_stride: int = 0) -> CrossKeysValues:
        """Encode float32[mels, frames]; see `TorchEncoder.encode`."""
        return self.encoder.encode(features, silence_stride=silence_stride)

    def new_decoder(self, encoder_output: CrossKeysValues) -> TorchDecoder:
        """Return a decoder of one row without tokens."""
        return TorchDecoder(self._whisper, encoder_output, self.alignment_heads)


class TorchDecoder:
    """
    The decoder over one encoder output; see Decoder.

    The hidden states of all rows are packed, one position after the other: self-attention runs over
    the keys and values of each row, of which rows with the same beginning share those, and in
    cross-attention the rows are queries of one window.
    """

    def __init__(
        self, whisper: Any, encoder_output: CrossKeysValues, alignment_heads: Heads
    ) -> None:
        config = whisper.config
        self._whisper = whisper
        self._cross = encoder_output
        self._alignment_heads = alignment_heads
        self._pool = KVPool(
            layers=config.decoder_layers,
            heads=config.decoder_attention_heads,
            size=config.d_model // config.decoder_attention_heads,
            window=NO_WINDOW,
            device=whisper.device,
            dtype=whisper.dtype,
        )
        self._caches = [self._pool.new_cache()]  # one per row

    def forward(
        self,
        tokens: NDArray[np.int64],
        *,
        logits_to_keep: Sequence[int] = (-1,),
        output_attention: bool = False,
    ) -> DecoderOutput:
        """Append int64[rows, new] to the rows and run them; one transfer to the host."""
        decoder, device = self._whisper.model.decoder, self._pool.device
        rows, new = tokens.shape
        with inference(device):
            attention_pass = AttentionPass.of(self._pool, self._caches, [new] * rows)
            states = decoder.embed_tokens(torch.from_numpy(tokens.reshape(-1)).to(device))
            states = states + decoder.embed_positions.weight[attention_pass.position_ids[0]]
            attention: list[torch.Tensor] = []
            for index, layer in enumerate(decoder.layers):
                states = _self_attention(layer, index, states, attention_pass)
                heads = [head for number, head in self._alignment_heads if number == index]
                keys, values = self._cross.cross_kv[index]
                module = layer.encoder_attn
                packed = module.q_proj(layer.encoder_attn_layer_norm(states))
                queries = split_heads(module, packed[None])
                mixed = functional.scaled_dot_product_attention(queries, keys, values)
                states = states + module.out_proj(merge_heads(mixed)[0])
                if output_attention and heads:
                    attention.append(_attention_weights(queries, keys, heads))
                states = mlp(layer, states)
            kept = states.view(rows, new, -1)[:, list(logits_to_keep)]
            outputs = [self._whisper.proj_out(decoder.layer_norm(kept)).float()]
            if output_attention:
                weights = torch.cat(attention)  # [heads, rows * new, frames]
                outputs.append(weights.view(len(weights), rows, new, -1).transpose(0, 1))
            logits, *cross_attention = _to_host(outputs)
        self._caches = list(attention_pass.caches)
        return DecoderOutput(
            logits=logits, cross_attention=cross_attention[0] if cross_attention else None
        )

    def reorder_cache(self, rows: Sequence[int]) -> None:
        """Make new row i continue from old row ``rows[i]``."""
        self._caches = [self._caches[row] for row in rows]


def _self_attention(
    layer: Any, index: int, states: torch.Tensor, attention: AttentionPass
) -> torch.Tensor:
    """Return packed states after causal self-attention, each row over its own positions."""
    module = layer.self_attn
    normal = layer.self_attn_layer_norm(states)
    queries, keys, values = (
        projection(normal).view(len(normal), module.num_heads, -1)
        for projection in (module.q_proj, module.k_proj, module.v_proj)
    )
    mixed = attention.mix(index, queries, keys, values, scale=queries.shape[-1] ** -0.5)
    output: torch.Tensor = states + module.out_proj(mixed)
    return output


def _attention_weights(
    queries: torch.Tensor, keys: torch.Tensor, heads: Sequence[int]
) -> torch.Tensor:
    """
    Return the softmax weights float32[heads, positions, frames] of some heads.

    The fused kernel does not return its weights.  Computing those of a few heads again costs
    little, and leaves the logits as they are.
    """
    head_queries, head_keys = queries[0, list(heads)].float(), keys[0, list(heads)].float()
    scores = head_queries @ head_keys.transpose(1, 2) * queries.shape[-1] ** -0.5
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights


def _to_host(tensors: Sequence[torch.Tensor]) -> list[NDArray[np.float32]]:
    """Return float32 tensors as arrays, in one transfer."""
    packed = torch.cat([tensor.reshape(-1) for tensor in tensors]).cpu().numpy()
    arrays, first = [], 0
    for tensor in tensors:
        arrays.append(packed[first : first + tensor.numel()].reshape(tensor.shape))
        first += tensor.numel()
    return arrays
