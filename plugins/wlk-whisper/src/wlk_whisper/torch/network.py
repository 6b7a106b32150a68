"""Run Whisper's layers on torch with transformers' modules, several streams in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from wlk_frameworks.kv_pool import AttentionPass, KVPool, Packing
from wlk_frameworks.torch import inference
from wlk_whisper.engine.network import ALONE, DecoderOutput, DecoderPass, EncoderPass, Rounding
from wlk_whisper.torch.encoder import KeysValues, TorchEncoder, merge_heads, mlp, split_heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration

    from wlk_frameworks.kv_pool import KVCache
    from wlk_whisper.engine.alignment_heads import Heads
    from wlk_whisper.engine.network import CrossKeysValues

NO_WINDOW = 1 << 40  # positions; more than a decoder has
# Batched passes differ from passes run alone by at most 1.3e-5 logits and 1.2e-5 of an attention
# weight, measured with 8 streams of the digits model.  In float16 and bfloat16 it is 0.5 logits and
# 10 %, so that half of the calls would be repeated.
ROUNDING = Rounding(margin=1e-3, attention=1e-4)


class TorchNetwork:
    """
    A Whisper on torch, shared by all streams; see Network.

    The modules never change.  Their layers are called one by one, because transformers' own forward
    pass returns no attention from a fused kernel.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration, *, alignment_heads: Heads) -> None:
        self.whisper: Any = whisper
        self.alignment_heads = alignment_heads
        self.encoder = TorchEncoder(whisper)
        self.n_mels = int(whisper.config.num_mel_bins)
        self.n_vocab = int(whisper.config.vocab_size)
        self.n_text_ctx = int(whisper.config.max_target_positions)
        self.dtype: torch.dtype = whisper.dtype

    def encode(
        self, features: NDArray[np.float32], *, is_padded: bool = False
    ) -> TorchEncoderOutput:
        """Encode float32[mels, frames] in a batch of its own; see `TorchEncoder.encode`."""
        item = EncoderPass(features=features, is_padded=is_padded)
        return self._new_batch(ALONE).encode([item])[0]

    def new_decoder(self, encoder_output: TorchEncoderOutput) -> TorchDecoder:
        """Return a decoder of one row without tokens."""
        return encoder_output.batch.new_decoder(encoder_output)

    def new_batch(self) -> TorchBatch | None:
        """Return a batch for several streams; None in half precision."""
        return self._new_batch(ROUNDING) if self.dtype == torch.float32 else None

    def _new_batch(self, rounding: Rounding) -> TorchBatch:
        return TorchBatch(self.whisper, self.encoder, self.alignment_heads, rounding)


@attrs.frozen(kw_only=True, eq=False)
class TorchEncoderOutput:
    """The encoder output of one stream in a batch."""

    batch: TorchBatch
    cross: CrossKeysValues


@attrs.frozen(kw_only=True, eq=False)
class _PaddedCrossKeysValues:
    """Cross-attention keys and values of several streams, padded to the longest window."""

    streams: tuple[CrossKeysValues, ...]
    layers: tuple[KeysValues, ...]  #: each [streams, heads, frames, head size]
    mask: torch.Tensor | None  #: bool[streams, 1, 1, frames], true for frames that a stream has

    @classmethod
    def of(cls, streams: Sequence[CrossKeysValues]) -> _PaddedCrossKeysValues:
        layers: list[KeysValues] = []
        for layer in range(len(streams[0].cross_kv)):
            keys = _padded([stream.cross_kv[layer][0] for stream in streams])
            values = _padded([stream.cross_kv[layer][1] for stream in streams])
            layers.append((keys, values))
        device = layers[0][0].device
        frames = torch.tensor([stream.frames for stream in streams], device=device)
        longest = max(stream.frames for stream in streams)
        mask = torch.arange(longest, device=device) < frames[:, None]
        is_padded = min(stream.frames for stream in streams) < longest
        return cls(
            streams=tuple(streams),
            layers=tuple(layers),
            mask=mask[:, None, None] if is_padded else None,
        )


def _padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack [1, heads, frames, head size] of each stream, with zeros after the shorter ones."""
    frames_first = [part[0].transpose(0, 1) for part in parts]
    return pad_sequence(frames_first, batch_first=True).transpose(1, 2).contiguous()


class TorchBatch:
    """
    A batch of passes over several streams; see `Network.new_batch`.

    The decoder's hidden states are packed, one position after the other, so that each projection is
    a single product for all streams.  Only attention differs: self-attention runs over the keys and
    values of each row, and cross-attention is padded to the longest window.
    """

    def __init__(
        self, whisper: Any, encoder: TorchEncoder, alignment_heads: Heads, rounding: Rounding
    ) -> None:
        config = whisper.config
        self._whisper = whisper
        self._encoder = encoder
        self._alignment_heads = alignment_heads
        self._rounding = rounding
        self._pool = KVPool(
            layers=config.decoder_layers,
            heads=config.decoder_attention_heads,
            size=config.d_model // config.decoder_attention_heads,
            window=NO_WINDOW,
            device=whisper.device,
            dtype=whisper.dtype,
        )
        self._padded_cross: _PaddedCrossKeysValues | None = None

    def encode(self, passes: Sequence[EncoderPass]) -> list[TorchEncoderOutput]:
        """Encode float32[mels, frames] of each stream; see `TorchEncoder.encode`."""
        return [
            TorchEncoderOutput(batch=self, cross=cross) for cross in self._encoder.encode(passes)
        ]

    def new_decoder(self, encoder_output: TorchEncoderOutput) -> TorchDecoder:
        """Return a decoder of one row without tokens."""
        return TorchDecoder(encoder_output, self._pool.new_cache())

    def forward(self, passes: Sequence[DecoderPass]) -> list[DecoderOutput]:
        """Append tokens to the rows of each decoder and run them all; one transfer to the host."""
        decoder, device = self._whisper.model.decoder, self._pool.device
        shapes = [item.tokens.shape for item in passes]
        sizes = [item.tokens.size for item in passes]
        with inference(device):
            attention_pass = AttentionPass.of(
                self._pool,
                [cache for item in passes for cache in item.decoder.caches],
                [new for rows, new in shapes for _ in range(rows)],
            )
            packing = Packing.of(sizes, device)
            cross = self._cross_of(passes)
            ids = np.concatenate([item.tokens.reshape(-1) for item in passes])
            states = decoder.embed_tokens(torch.from_numpy(ids).to(device))
            states = states + decoder.embed_positions.weight[attention_pass.position_ids[0]]
            attention: list[torch.Tensor] = []
            output_attention = any(item.output_attention for item in passes)
            for index, layer in enumerate(decoder.layers):
                states = _self_attention(layer, index, states, attention_pass)
                heads = [head for number, head in self._alignment_heads if number == index]
                states, weights = _cross_attention(
                    layer,
                    index,
                    states,
                    cross,
                    packing,
                    heads=heads if output_attention else (),
                )
                if weights is not None:
                    attention.append(weights)
                states = mlp(layer, states)
            kept = torch.tensor(_kept_positions(passes), device=device)
            states = decoder.layer_norm(states[kept])
            counts = [len(item.tokens) * len(item.logits_to_keep) for item in passes]
            outputs = list(self._whisper.proj_out(states).float().split(counts))
            if output_attention:
                ordered = torch.cat(attention, dim=1)
                outputs += [
                    weights[:, :size, : stream.frames]
                    for weights, size, stream in zip(ordered, sizes, cross.streams, strict=True)
                ]
            arrays = _to_host(outputs)
        first = 0
        for item in passes:
            end = first + len(item.decoder.caches)
            item.decoder.caches = attention_pass.caches[first:end]
            first = end
        return [
            DecoderOutput(
                logits=arrays[index].reshape(len(item.tokens), len(item.logits_to_keep), -1),
                cross_attention=_split_rows(arrays[len(passes) + index], item.tokens.shape)
                if item.output_attention
                else None,
                rounding=self._rounding,
            )
            for index, item in enumerate(passes)
        ]

    def _cross_of(self, passes: Sequence[DecoderPass]) -> _PaddedCrossKeysValues:
        """Return the keys and values of the streams, padded anew after a stream came or left."""
        streams = tuple(item.decoder.encoder_output.cross for item in passes)
        cross = self._padded_cross
        if cross is None or cross.streams != streams:
            # The old ones are freed first, because both may not fit into memory.
            cross = self._padded_cross = None
            cross = _PaddedCrossKeysValues.of(streams)
            self._padded_cross = cross
        return cross


class TorchDecoder:
    """The decoder over the encoder output of one stream in a batch; see Decoder."""

    def __init__(self, encoder_output: TorchEncoderOutput, cache: KVCache) -> None:
        self.encoder_output = encoder_output
        self.caches = [cache]  #: one per row

    def forward(
        self,
        tokens: NDArray[np.int64],
        *,
        logits_to_keep: Sequence[int] = (-1,),
        output_attention: bool = False,
    ) -> DecoderOutput:
        """Append int64[rows, new] to the rows and run them without other streams."""
        item = DecoderPass(
            decoder=self,
            tokens=tokens,
            logits_to_keep=logits_to_keep,
            output_attention=output_attention,
        )
        return self.encoder_output.batch.forward([item])[0]

    def reorder_cache(self, rows: Sequence[int]) -> None:
        """Make new row i continue from old row ``rows[i]``."""
        self.caches = [self.caches[row] for row in rows]


def _kept_positions(passes: Sequence[DecoderPass]) -> list[int]:
    """Return the indices of the packed positions whose logits are kept, pass after pass."""
    kept: list[int] = []
    first = 0
    for item in passes:
        rows, new = item.tokens.shape
        for _ in range(rows):
            positions = range(first, first + new)
            kept += [positions[index] for index in item.logits_to_keep]
            first += new
    return kept


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


def _cross_attention(
    layer: Any,
    index: int,
    states: torch.Tensor,
    cross: _PaddedCrossKeysValues,
    packing: Packing,
    *,
    heads: Sequence[int],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    Return packed states after cross-attention, and the weights of *heads* or None without heads.

    The rows of a stream become one row of queries, because they share its keys and values.
    """
    attention = layer.encoder_attn
    packed = attention.q_proj(layer.encoder_attn_layer_norm(states))
    queries = split_heads(attention, packing.pad(packed))
    keys, values = cross.layers[index]
    mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=cross.mask)
    states = states + attention.out_proj(packing.pack(merge_heads(mixed)))
    return states, _attention_weights(queries, keys, heads, cross.mask) if heads else None


def _attention_weights(
    queries: torch.Tensor,
    keys: torch.Tensor,
    heads: Sequence[int],
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """
    Return the softmax weights float32[rows, heads, new, frames] of some heads.

    The fused kernel does not return its weights.  Computing those of a few heads again costs
    little, and leaves the logits as they are.  *mask* is true for frames that a stream has.
    """
    head_queries, head_keys = queries[:, list(heads)].float(), keys[:, list(heads)].float()
    scores = head_queries @ head_keys.transpose(2, 3) * queries.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights


def _split_rows(weights: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return [heads, rows * new, frames] as [rows, heads, new, frames]."""
    return weights.reshape(len(weights), *shape, -1).swapaxes(0, 1)


def _to_host(tensors: Sequence[torch.Tensor]) -> list[NDArray[np.float32]]:
    """Return float32 tensors as arrays, in one transfer."""
    packed = torch.cat([tensor.reshape(-1) for tensor in tensors]).cpu().numpy()
    arrays, first = [], 0
    for tensor in tensors:
        arrays.append(packed[first : first + tensor.numel()].reshape(tensor.shape))
        first += tensor.numel()
    return arrays
