"""Whisper's layers on torch: the Network protocol over the modules of transformers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch.nn import functional

from wlk_whisper.engine.network import MEL_FRAMES_PER_ENCODER_FRAME, DecoderOutput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration

    from wlk_whisper.engine.alignment_heads import Heads

__all__ = ["TorchNetwork"]

_KeysValues = tuple[torch.Tensor, torch.Tensor]  # each [rows, heads, positions, head size]


@attrs.frozen(kw_only=True, eq=False)
class TorchEncoderOutput:
    """The cross-attention keys and values of each decoder layer."""

    frames: int
    cross_kv: tuple[_KeysValues, ...]


class TorchNetwork:
    """
    A Whisper on torch, shared by all streams; see Network.

    The modules are never changed.  Their layers are called one by one here, because transformers'
    own forward pass takes only windows of 30 s and returns no attention from a fused kernel.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration, *, alignment_heads: Heads) -> None:
        self._whisper: Any = whisper
        self._alignment_heads = alignment_heads
        heads_of_layer: dict[int, list[int]] = {}
        for layer, head in alignment_heads:
            heads_of_layer.setdefault(layer, []).append(head)
        # Attention is computed layer by layer and returned in the order of alignment_heads.
        computed = [
            (layer, head) for layer in sorted(heads_of_layer) for head in heads_of_layer[layer]
        ]
        order = tuple(computed.index(pair) for pair in alignment_heads)
        self._new_decoder = partial(
            TorchDecoder, whisper, heads_of_layer=heads_of_layer, order=order
        )

    @property
    def n_mels(self) -> int:
        """Mel bands of a frame."""
        return int(self._whisper.config.num_mel_bins)

    @property
    def n_vocab(self) -> int:
        """Rows of the logits."""
        return int(self._whisper.config.vocab_size)

    @property
    def n_text_ctx(self) -> int:
        """Positions of the decoder."""
        return int(self._whisper.config.max_target_positions)

    @property
    def alignment_heads(self) -> Heads:
        """The (layer, head) pairs whose attention is returned."""
        return self._alignment_heads

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return torch.device(self._whisper.device)

    @property
    def dtype(self) -> torch.dtype:
        """The arithmetic of the model."""
        dtype: torch.dtype = self._whisper.dtype
        return dtype

    def encode(self, features: NDArray[np.float32]) -> TorchEncoderOutput:
        """
        Encode float32[mels, frames] without padding.

        Raises:
            ValueError: the number of mel frames is zero, odd or too large for the encoder.

        """
        encoder = self._whisper.model.encoder
        mel_frames = features.shape[1]
        most = MEL_FRAMES_PER_ENCODER_FRAME * int(self._whisper.config.max_source_positions)
        if not 0 < mel_frames <= most or mel_frames % MEL_FRAMES_PER_ENCODER_FRAME:
            raise ValueError(f"expected an even number of frames up to {most}, got {mel_frames}")
        with torch.inference_mode():
            inputs = torch.from_numpy(np.ascontiguousarray(features)).to(self.device, self.dtype)
            states = functional.gelu(encoder.conv1(inputs[None]))
            states = functional.gelu(encoder.conv2(states)).transpose(1, 2)
            frames = states.shape[1]
            states = states + encoder.embed_positions.weight[:frames]
            for layer in encoder.layers:
                states = _encoder_layer(layer, states)
            states = encoder.layer_norm(states)
            cross_kv = tuple(
                _keys_and_values(layer.encoder_attn, states)
                for layer in self._whisper.model.decoder.layers
            )
        return TorchEncoderOutput(frames=frames, cross_kv=cross_kv)

    def new_decoder(self, encoder_output: TorchEncoderOutput) -> TorchDecoder:
        """Return a decoder of one row without tokens."""
        return self._new_decoder(encoder_output)


class TorchDecoder:
    """The decoder over one encoder output, with its KV cache; see Decoder."""

    def __init__(
        self,
        whisper: Any,
        encoder_output: TorchEncoderOutput,
        *,
        heads_of_layer: Mapping[int, Sequence[int]],
        order: Sequence[int],
    ) -> None:
        self._whisper = whisper
        self._cross_kv = encoder_output.cross_kv
        self._heads_of_layer = heads_of_layer
        self._order = list(order)
        self._kv_cache: list[_KeysValues] = []
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
        length, most = self._length + tokens.shape[1], self._whisper.config.max_target_positions
        if length > most:
            raise ValueError(f"expected at most {most} tokens in a row, got {length}")
        with torch.inference_mode():
            ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(device)
            states = decoder.embed_tokens(ids)
            states = states + decoder.embed_positions.weight[self._length : length]
            kv_cache: list[_KeysValues] = []
            attention: list[torch.Tensor] = []
            for index, layer in enumerate(decoder.layers):
                past = self._kv_cache[index] if self._kv_cache else None
                states, keys_values = _self_attention(layer, states, past)
                kv_cache.append(keys_values)
                heads = self._heads_of_layer.get(index, ()) if output_attention else ()
                states, weights = _cross_attention(layer, states, self._cross_kv[index], heads)
                if weights is not None:
                    attention.append(weights)
                states = _mlp(layer, states)
            kept = decoder.layer_norm(states[:, list(logits_to_keep)])
            outputs = [self._whisper.proj_out(kept).float()]
            if output_attention:
                outputs.append(torch.cat(attention, dim=1)[:, self._order])
            arrays = _to_host(*outputs)
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


def _encoder_layer(layer: Any, states: torch.Tensor) -> torch.Tensor:
    attention = layer.self_attn
    normal = layer.self_attn_layer_norm(states)
    keys, values = _keys_and_values(attention, normal)
    mixed = functional.scaled_dot_product_attention(_queries(attention, normal), keys, values)
    states = states + attention.out_proj(_merge_heads(mixed))
    states = _mlp(layer, states)
    if states.dtype == torch.float16:  # large models overflow it (transformers #18146)
        limit = torch.finfo(states.dtype).max - 1000
        states = states.clamp(min=-limit, max=limit)
    return states


def _self_attention(
    layer: Any, states: torch.Tensor, past: _KeysValues | None
) -> tuple[torch.Tensor, _KeysValues]:
    """Return the states after causal self-attention, and all keys and values so far."""
    normal = layer.self_attn_layer_norm(states)
    queries = _queries(layer.self_attn, normal)
    keys, values = _keys_and_values(layer.self_attn, normal)
    if past is not None:
        keys, values = torch.cat((past[0], keys), dim=2), torch.cat((past[1], values), dim=2)
    mask = None
    new, length = queries.shape[2], keys.shape[2]
    if new > 1:
        mask = torch.ones(new, length, dtype=torch.bool, device=states.device)
        mask = mask.tril(diagonal=length - new)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return states + layer.self_attn.out_proj(_merge_heads(mixed)), (keys, values)


def _cross_attention(
    layer: Any, states: torch.Tensor, cross_kv: _KeysValues, heads: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the states after cross-attention, and the float32 weights of *heads*."""
    queries = _queries(layer.encoder_attn, layer.encoder_attn_layer_norm(states))
    keys, values = (part.expand(queries.shape[0], -1, -1, -1) for part in cross_kv)
    mixed = functional.scaled_dot_product_attention(queries, keys, values)
    states = states + layer.encoder_attn.out_proj(_merge_heads(mixed))
    return states, _attention_weights(queries, keys, heads) if heads else None


def _mlp(layer: Any, states: torch.Tensor) -> torch.Tensor:
    normal = layer.final_layer_norm(states)
    output: torch.Tensor = states + layer.fc2(layer.activation_fn(layer.fc1(normal)))
    return output


def _attention_weights(
    queries: torch.Tensor, keys: torch.Tensor, heads: Sequence[int]
) -> torch.Tensor:
    """
    Return the softmax weights float32[rows, heads, new, frames] of some heads.

    The fused kernel that mixes the values returns none.  Computing these heads a second time costs
    little, and the logits are the same with and without it.
    """
    head_queries, head_keys = queries[:, list(heads)].float(), keys[:, list(heads)].float()
    scores = head_queries @ head_keys.transpose(2, 3) * queries.shape[-1] ** -0.5
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights


def _queries(attention: Any, states: torch.Tensor) -> torch.Tensor:
    return _split_heads(attention, attention.q_proj(states))


def _keys_and_values(attention: Any, states: torch.Tensor) -> _KeysValues:
    return (
        _split_heads(attention, attention.k_proj(states)),
        _split_heads(attention, attention.v_proj(states)),
    )


def _split_heads(attention: Any, states: torch.Tensor) -> torch.Tensor:
    """Return [rows, positions, width] as [rows, heads, positions, head size]."""
    rows, positions, _ = states.shape
    return states.view(rows, positions, attention.num_heads, -1).transpose(1, 2)


def _merge_heads(states: torch.Tensor) -> torch.Tensor:
    """Return [rows, heads, positions, head size] as [rows, positions, width]."""
    return states.transpose(1, 2).flatten(2)


def _to_host(*tensors: torch.Tensor) -> list[NDArray[np.float32]]:
    """Return float32 tensors as arrays, in one transfer."""
    packed = torch.cat([tensor.reshape(-1) for tensor in tensors]).cpu().numpy()
    arrays, first = [], 0
    for tensor in tensors:
        arrays.append(packed[first : first + tensor.numel()].reshape(tensor.shape))
        first += tensor.numel()
    return arrays
