"""Whisper's layers on torch: the modules of transformers, run behind the seam of the decoder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch.nn import functional

from wlk_whisper.decoder.network import POSITION_FRAMES, Forward

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration

    from wlk_whisper.heads import Heads

__all__ = ["TorchNetwork"]

_Pair = tuple[torch.Tensor, torch.Tensor]  # keys and values, [rows, heads, positions, size]


@attrs.frozen(kw_only=True, eq=False)
class TorchEncoded:
    """What the decoder looks at: each layer's keys and values of the encoder's positions."""

    positions: int
    layers: tuple[_Pair, ...]


class TorchNetwork:
    """
    A Whisper on torch, shared by all streams; see Network.

    The modules are only read.  Their layers are called one by one from here, because transformers'
    own forward takes 30 s of audio and nothing else, and keeps no attention beside a fast kernel.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration, *, alignment_heads: Heads) -> None:
        self._whisper: Any = whisper
        self._heads = alignment_heads
        places: dict[int, list[int]] = {}
        for layer, head in alignment_heads:
            places.setdefault(layer, []).append(head)
        # Layers give their heads one after another: back to the order that was asked for.
        given = [(layer, head) for layer in sorted(places) for head in places[layer]]
        order = tuple(given.index(pair) for pair in alignment_heads)
        self._begin = partial(TorchRun, whisper, heads_of=places, order=order)

    @property
    def mels(self) -> int:
        """Mel bands of a frame."""
        return int(self._whisper.config.num_mel_bins)

    @property
    def vocabulary(self) -> int:
        """Rows of the logits."""
        return int(self._whisper.config.vocab_size)

    @property
    def text_positions(self) -> int:
        """Positions the decoder has room for."""
        return int(self._whisper.config.max_target_positions)

    @property
    def alignment_heads(self) -> Heads:
        """The (layer, head) pairs whose attention is returned."""
        return self._heads

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return torch.device(self._whisper.device)

    @property
    def dtype(self) -> torch.dtype:
        """The arithmetic the model runs in."""
        dtype: torch.dtype = self._whisper.dtype
        return dtype

    def encode(self, features: NDArray[np.float32]) -> TorchEncoded:
        """
        Encode float32[mels, frames] with as many positions as that has, 20 ms each.

        Raises:
            ValueError: the frames are odd, none or more than the encoder has positions for.

        """
        encoder = self._whisper.model.encoder
        frames = features.shape[1]
        most = POSITION_FRAMES * int(self._whisper.config.max_source_positions)
        if not 0 < frames <= most or frames % POSITION_FRAMES:
            raise ValueError(f"expected an even number of frames up to {most}, got {frames}")
        with torch.inference_mode():
            heard = torch.from_numpy(np.ascontiguousarray(features)).to(self.device, self.dtype)
            states = functional.gelu(encoder.conv1(heard[None]))
            states = functional.gelu(encoder.conv2(states)).transpose(1, 2)
            positions = states.shape[1]
            states = states + encoder.embed_positions.weight[:positions]
            for layer in encoder.layers:
                states = _encoder_layer(layer, states)
            states = encoder.layer_norm(states)
            layers = tuple(
                _keys_and_values(layer.encoder_attn, states)
                for layer in self._whisper.model.decoder.layers
            )
        return TorchEncoded(positions=positions, layers=layers)

    def begin(self, encoded: TorchEncoded) -> TorchRun:
        """Return a run of one row that has no token yet."""
        return self._begin(encoded)


class TorchRun:
    """The decoder over one encoded stretch; its caches live here. See Run."""

    def __init__(
        self,
        whisper: Any,
        encoded: TorchEncoded,
        *,
        heads_of: Mapping[int, Sequence[int]],
        order: Sequence[int],
    ) -> None:
        self._whisper = whisper
        self._encoded = encoded
        self._heads_of = heads_of  # by layer
        self._order = list(order)
        self._cache: list[_Pair] = []
        self._length = 0

    def forward(
        self, tokens: NDArray[np.int64], *, keep: Sequence[int] = (-1,), attend: bool = False
    ) -> Forward:
        """
        Run int64[rows, new] behind what each row has so far; one transfer to the host.

        Raises:
            ValueError: there is no room for as many tokens.

        """
        decoder, device = self._whisper.model.decoder, self._whisper.device
        length, most = self._length + tokens.shape[1], self._whisper.config.max_target_positions
        if length > most:
            raise ValueError(f"expected at most {most} tokens in a row, got {length}")
        with torch.inference_mode():
            ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(device)
            states = decoder.embed_tokens(ids)
            states = states + decoder.embed_positions.weight[self._length : length]
            cache: list[_Pair] = []
            looked: list[torch.Tensor] = []
            for index, layer in enumerate(decoder.layers):
                heads = self._heads_of.get(index, ()) if attend else ()
                past = self._cache[index] if self._cache else None
                states, pair, weights = _decoder_layer(
                    layer, states, past, self._encoded.layers[index], heads
                )
                cache.append(pair)
                if weights is not None:
                    looked.append(weights)
            logits = self._whisper.proj_out(decoder.layer_norm(states[:, list(keep)])).float()
            wanted = [logits]
            if attend:
                wanted.append(torch.cat(looked, dim=1)[:, self._order])
            arrays = _to_host(*wanted)
        self._cache, self._length = cache, length
        return Forward(logits=arrays[0], attention=arrays[1] if attend else None)

    def reorder(self, rows: Sequence[int]) -> None:
        """Let row i go on from what row ``rows[i]`` was."""
        with torch.inference_mode():
            index = torch.tensor(list(rows), device=self._whisper.device)
            self._cache = [
                (keys.index_select(0, index), values.index_select(0, index))
                for keys, values in self._cache
            ]


def _encoder_layer(layer: Any, states: torch.Tensor) -> torch.Tensor:
    attention = layer.self_attn
    normal = layer.self_attn_layer_norm(states)
    keys, values = _keys_and_values(attention, normal)
    mixed = functional.scaled_dot_product_attention(_queries(attention, normal), keys, values)
    states = states + attention.out_proj(_merged(mixed))
    states = _fed_forward(layer, states)
    if states.dtype == torch.float16:  # large models overflow it (transformers #18146)
        limit = torch.finfo(states.dtype).max - 1000
        states = states.clamp(min=-limit, max=limit)
    return states


def _decoder_layer(
    layer: Any,
    states: torch.Tensor,
    past: _Pair | None,
    heard: _Pair,
    heads: Sequence[int],
) -> tuple[torch.Tensor, _Pair, torch.Tensor | None]:
    """Return the new states, the keys and values so far, and float32 weights of *heads*."""
    normal = layer.self_attn_layer_norm(states)
    queries = _queries(layer.self_attn, normal)
    keys, values = _keys_and_values(layer.self_attn, normal)
    mask = None
    if past is not None:
        keys, values = torch.cat((past[0], keys), dim=2), torch.cat((past[1], values), dim=2)
    new, length = queries.shape[2], keys.shape[2]
    if new > 1:
        mask = torch.ones(new, length, dtype=torch.bool, device=states.device)
        mask = mask.tril(diagonal=length - new)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    states = states + layer.self_attn.out_proj(_merged(mixed))

    queries = _queries(layer.encoder_attn, layer.encoder_attn_layer_norm(states))
    rows = queries.shape[0]
    audio = (heard[0].expand(rows, -1, -1, -1), heard[1].expand(rows, -1, -1, -1))
    mixed = functional.scaled_dot_product_attention(queries, *audio)
    states = states + layer.encoder_attn.out_proj(_merged(mixed))
    weights = _weights(queries, audio[0], heads) if heads else None
    return _fed_forward(layer, states), (keys, values), weights


def _fed_forward(layer: Any, states: torch.Tensor) -> torch.Tensor:
    normal = layer.final_layer_norm(states)
    fed: torch.Tensor = states + layer.fc2(layer.activation_fn(layer.fc1(normal)))
    return fed


def _weights(queries: torch.Tensor, keys: torch.Tensor, heads: Sequence[int]) -> torch.Tensor:
    """
    Return the softmax weights float32[rows, heads, new, positions] of some heads.

    The fast kernel that mixes the values keeps none.  Doing these heads again beside it costs
    little, and what is said does not depend on whether anyone looks.
    """
    asked, told = queries[:, list(heads)].float(), keys[:, list(heads)].float()
    scores = asked @ told.transpose(2, 3) * queries.shape[-1] ** -0.5
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights


def _queries(attention: Any, states: torch.Tensor) -> torch.Tensor:
    return _split(attention, attention.q_proj(states))


def _keys_and_values(attention: Any, states: torch.Tensor) -> _Pair:
    return (
        _split(attention, attention.k_proj(states)),
        _split(attention, attention.v_proj(states)),
    )


def _split(attention: Any, states: torch.Tensor) -> torch.Tensor:
    """Return [rows, positions, width] as [rows, heads, positions, size]."""
    rows, positions, _ = states.shape
    return states.view(rows, positions, attention.num_heads, -1).transpose(1, 2)


def _merged(states: torch.Tensor) -> torch.Tensor:
    """Return [rows, heads, positions, size] as [rows, positions, width]."""
    return states.transpose(1, 2).flatten(2)


def _to_host(*tensors: torch.Tensor) -> list[NDArray[np.float32]]:
    """Return float32 tensors as arrays, brought over together."""
    together = torch.cat([tensor.reshape(-1) for tensor in tensors]).cpu().numpy()
    arrays, first = [], 0
    for tensor in tensors:
        arrays.append(together[first : first + tensor.numel()].reshape(tensor.shape))
        first += tensor.numel()
    return arrays
