"""Whisper's layers on torch: the Network protocol over the modules of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from wlk_whisper.engine.network import DecoderOutput, EncoderPass, Rounding
from wlk_whisper.torch.batch import BatchEncoderOutput, TorchBatch
from wlk_whisper.torch.encoder import TorchEncoder, TorchEncoderOutput
from wlk_whisper.torch.layers import (
    AttendingHeads,
    KeysValues,
    attention_weights,
    keys_and_values,
    merge_heads,
    mlp,
    queries,
    to_host,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration

    from wlk_whisper.engine.alignment_heads import Heads
    from wlk_whisper.engine.network import Decoder

__all__ = ["TorchNetwork"]

# Common passes differ from passes alone by 1.3e-5 logits and by 1.2e-5 of an attention weight at
# most, measured with 8 streams of the digits model.  In float16 and bfloat16 that is 0.5 logits
# and 10 %, so that half of the calls would be made again.
ROUNDING = Rounding(margin=1e-3, attention=1e-4)


class TorchNetwork:
    """
    A Whisper on torch, shared by all streams; see BatchNetwork.

    The modules are never changed.  Their layers are called one by one here, because transformers'
    own forward pass returns no attention from a fused kernel.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration, *, alignment_heads: Heads) -> None:
        self._whisper: Any = whisper
        self._heads = AttendingHeads(alignment_heads)
        self.alignment_heads = alignment_heads
        self.encoder = TorchEncoder(whisper)
        self.n_mels = int(self._whisper.config.num_mel_bins)
        self.n_vocab = int(self._whisper.config.vocab_size)
        self.n_text_ctx = int(self._whisper.config.max_target_positions)
        self.device: torch.device = self._whisper.device
        self.dtype: torch.dtype = self._whisper.dtype

    def encode(
        self, features: NDArray[np.float32], *, is_padded: bool = False
    ) -> TorchEncoderOutput:
        """Encode float32[mels, frames]; see `TorchEncoder.encode`."""
        return self.encoder.encode([EncoderPass(features=features, is_padded=is_padded)])[0]

    def new_decoder(self, encoder_output: TorchEncoderOutput | BatchEncoderOutput) -> Decoder:
        """Return a decoder of one row without tokens."""
        if isinstance(encoder_output, BatchEncoderOutput):
            return encoder_output.batch.new_decoder(encoder_output)
        return TorchDecoder(self._whisper, encoder_output, heads=self._heads)

    def new_batch(self) -> TorchBatch | None:
        """Return what runs several streams together; None in half precision."""
        if self.dtype != torch.float32:
            return None
        return TorchBatch(self._whisper, self.encoder, heads=self._heads, rounding=ROUNDING)


class TorchDecoder:
    """The decoder over one encoder output, with its KV cache; see Decoder."""

    def __init__(
        self, whisper: Any, encoder_output: TorchEncoderOutput, *, heads: AttendingHeads
    ) -> None:
        self._whisper = whisper
        self._cross_kv = encoder_output.cross_kv
        self._heads = heads
        self._kv_cache: list[KeysValues] = []
        self._length = 0

    def forward(
        self,
        tokens: NDArray[np.int64],
        *,
        logits_to_keep: Sequence[int] = (-1,),
        output_attention: bool = False,
    ) -> DecoderOutput:
        """
        Append int64[rows, new] to the rows and run them; one transfer to the host.

        Raises:
            ValueError: the decoder has no positions left for the tokens.

        """
        decoder, device = self._whisper.model.decoder, self._whisper.device
        length, limit = self._length + tokens.shape[1], self._whisper.config.max_target_positions
        if length > limit:
            raise ValueError(f"expected at most {limit} tokens in a row, got {length}")
        with torch.inference_mode():
            ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(device)
            states = decoder.embed_tokens(ids)
            states = states + decoder.embed_positions.weight[self._length : length]
            kv_cache: list[KeysValues] = []
            attention: list[torch.Tensor] = []
            for index, layer in enumerate(decoder.layers):
                past = self._kv_cache[index] if self._kv_cache else None
                states, keys_values = _self_attention(layer, states, past)
                kv_cache.append(keys_values)
                heads = self._heads[index] if output_attention else ()
                states, weights = _cross_attention(layer, states, self._cross_kv[index], heads)
                if weights is not None:
                    attention.append(weights)
                states = mlp(layer, states)
            kept = decoder.layer_norm(states[:, list(logits_to_keep)])
            outputs = [self._whisper.proj_out(kept).float()]
            if output_attention:
                outputs.append(self._heads.in_order(attention))
            arrays = to_host(*outputs)
        self._kv_cache, self._length = kv_cache, length
        return DecoderOutput(
            logits=arrays[0], cross_attention=arrays[1] if output_attention else None
        )

    def reorder_cache(self, rows: Sequence[int]) -> None:
        """Make new row i continue from old row ``rows[i]``."""
        with torch.inference_mode():
            index = torch.tensor(list(rows), device=self._whisper.device)
            self._kv_cache = [
                (keys.index_select(0, index), values.index_select(0, index))
                for keys, values in self._kv_cache
            ]


def _self_attention(
    layer: Any, states: torch.Tensor, past: KeysValues | None
) -> tuple[torch.Tensor, KeysValues]:
    """Return the states after causal self-attention, and all keys and values so far."""
    normal = layer.self_attn_layer_norm(states)
    new_queries = queries(layer.self_attn, normal)
    keys, values = keys_and_values(layer.self_attn, normal)
    if past is not None:
        keys, values = torch.cat((past[0], keys), dim=2), torch.cat((past[1], values), dim=2)
    mask = None
    new, length = new_queries.shape[2], keys.shape[2]
    if new > 1:
        mask = torch.ones(new, length, dtype=torch.bool, device=states.device)
        mask = mask.tril(diagonal=length - new)
    mixed = functional.scaled_dot_product_attention(new_queries, keys, values, attn_mask=mask)
    return states + layer.self_attn.out_proj(merge_heads(mixed)), (keys, values)


def _cross_attention(
    layer: Any, states: torch.Tensor, cross_kv: KeysValues, heads: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the states after cross-attention, and the float32 weights of *heads*."""
    new_queries = queries(layer.encoder_attn, layer.encoder_attn_layer_norm(states))
    keys, values = (part.expand(new_queries.shape[0], -1, -1, -1) for part in cross_kv)
    mixed = functional.scaled_dot_product_attention(new_queries, keys, values)
    states = states + layer.encoder_attn.out_proj(merge_heads(mixed))
    return states, attention_weights(new_queries, keys, heads) if heads else None
