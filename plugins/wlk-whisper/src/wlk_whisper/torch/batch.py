"""Several streams in one pass of the encoder or the decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch.nn import functional

from wlk_core.frameworks.kv_pages import PagePool
from wlk_core.frameworks.packed_attention import AttentionPass, Packing
from wlk_whisper.engine.network import DecoderOutput
from wlk_whisper.engine.passes import DecoderPass
from wlk_whisper.torch.layers import (
    KeysValues,
    attention_weights,
    embed_audio,
    encoder_layer,
    merge_heads,
    mlp,
    split_heads,
    to_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wlk_core.frameworks.kv_pages import PagedCache
    from wlk_whisper.engine.network import Rounding
    from wlk_whisper.engine.passes import EncoderPass
    from wlk_whisper.torch.layers import AttendingHeads

__all__ = ["BatchDecoder", "BatchEncoderOutput", "TorchBatch"]

NO_WINDOW = 1 << 40  # positions; more than a decoder has


@attrs.frozen(kw_only=True, eq=False)
class _StreamMemory:
    """The cross-attention keys and values of one stream, for each layer [frames, width]."""

    frames: int
    layers: tuple[KeysValues, ...]


@attrs.frozen(kw_only=True, eq=False)
class BatchEncoderOutput:
    """The encoder output of one stream in a batch."""

    batch: TorchBatch
    memory: _StreamMemory

    @property
    def frames(self) -> int:
        """Encoder frames."""
        return self.memory.frames


@attrs.frozen(kw_only=True, eq=False)
class _CrossMemory:
    """Keys and values of several streams, padded to the longest, [streams, heads, frames, size]."""

    streams: tuple[_StreamMemory, ...]
    layers: tuple[KeysValues, ...]
    mask: torch.Tensor | None  #: bool[streams, 1, 1, frames], true where a stream has the frame

    @classmethod
    def of(cls, streams: Sequence[_StreamMemory], decoder: Any) -> _CrossMemory:
        layers = []
        for index, layer in enumerate(decoder.layers):
            keys, values = (
                torch.nn.utils.rnn.pad_sequence(
                    [stream.layers[index][part] for stream in streams], batch_first=True
                )
                for part in range(2)
            )
            attention = layer.encoder_attn
            layers.append((split_heads(attention, keys), split_heads(attention, values)))
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


class TorchBatch:
    """
    Passes over several streams; see Batch.

    Hidden states are packed, one position after the other, so that the layers of all streams are
    one product each.  Only attention is apart: the encoder's for each length of window, the
    decoder's over pages of keys and values, and the cross attention padded to the longest window.
    """

    def __init__(
        self,
        whisper: Any,
        *,
        heads: AttendingHeads,
        rounding: Rounding,
        check_window: Callable[[NDArray[np.float32]], None],
        silence: Callable[[], Sequence[KeysValues]],
    ) -> None:
        config = whisper.config
        self._whisper = whisper
        self._heads = heads
        self._rounding = rounding
        self._check_window = check_window
        self._silence = silence
        self._pool = PagePool(
            layers=config.decoder_layers,
            heads=config.decoder_attention_heads,
            size=config.d_model // config.decoder_attention_heads,
            window=NO_WINDOW,
            device=whisper.device,
            dtype=whisper.dtype,
        )
        self._cross_memory: _CrossMemory | None = None

    def encode(self, passes: Sequence[EncoderPass]) -> list[BatchEncoderOutput]:
        """
        Encode float32[mels, frames] of each stream; see `TorchNetwork.encode`.

        Raises:
            ValueError: the number of mel frames of one is zero, odd or too large.

        """
        features = [item.features for item in passes]
        for window in features:
            self._check_window(window)
        model = self._whisper.model
        by_length: dict[int, list[int]] = {}
        for index, window in enumerate(features):
            by_length.setdefault(window.shape[1], []).append(index)
        order = [index for members in by_length.values() for index in members]
        with torch.inference_mode():
            embedded = [
                embed_audio(model.encoder, self._to_device([features[index] for index in members]))
                for members in by_length.values()
            ]
            shapes = [(group.shape[0], group.shape[1]) for group in embedded]
            states = torch.cat([group.flatten(0, 1) for group in embedded])
            for layer in model.encoder.layers:
                states = encoder_layer(layer, states, _GroupedAttention(shapes))
            states = model.encoder.layer_norm(states)
            lengths = [frames for rows, frames in shapes for _ in range(rows)]
            layers = [
                (
                    layer.encoder_attn.k_proj(states).split(lengths),
                    layer.encoder_attn.v_proj(states).split(lengths),
                )
                for layer in model.decoder.layers
            ]
        outputs = {
            index: BatchEncoderOutput(
                batch=self,
                memory=self._memory(
                    [(keys[row], values[row]) for keys, values in layers],
                    is_padded=passes[index].is_padded,
                ),
            )
            for row, index in enumerate(order)
        }
        return [outputs[index] for index in range(len(features))]

    def _memory(self, layers: Sequence[KeysValues], *, is_padded: bool) -> _StreamMemory:
        """Return the cross memory of one stream, with that of silence after it if *is_padded*."""
        frames = len(layers[0][0])
        if is_padded:
            silence = [
                tuple(merge_heads(part[:, :, frames:])[0] for part in layer)
                for layer in self._silence()
            ]
            pairs = [zip(own, rest, strict=True) for own, rest in zip(layers, silence, strict=True)]
            layers = [(torch.cat(next(pair)), torch.cat(next(pair))) for pair in pairs]
        return _StreamMemory(frames=len(layers[0][0]), layers=tuple(layers))

    def new_decoder(self, encoder_output: BatchEncoderOutput) -> BatchDecoder:
        """Return a decoder of one row without tokens."""
        return BatchDecoder(encoder_output, self._pool.new_cache())

    def forward(self, passes: Sequence[DecoderPass[BatchDecoder]]) -> list[DecoderOutput]:
        """
        Append tokens to the rows of each decoder and run them all; one transfer to the host.

        Raises:
            ValueError: a decoder has no positions left for its tokens.

        """
        for item in passes:
            self._check_room(item)
        decoder, device = self._whisper.model.decoder, self._pool.device
        shapes = [item.tokens.shape for item in passes]
        with torch.inference_mode():
            attention = AttentionPass.of(
                self._pool,
                [cache for item in passes for cache in item.decoder.caches],
                [new for rows, new in shapes for _ in range(rows)],
            )
            ids = np.concatenate([item.tokens.reshape(-1) for item in passes])
            states = decoder.embed_tokens(torch.from_numpy(ids).to(device))
            states = states + decoder.embed_positions.weight[attention.position_ids[0]]
            cross = _CrossPass.of(self._memory_of(passes), passes, device)
            weights: list[torch.Tensor] = []
            for index, layer in enumerate(decoder.layers):
                states = _self_attention(layer, index, states, attention)
                states = cross.attend(layer, index, states, self._heads[index], weights)
                states = mlp(layer, states)
            kept = torch.tensor(_kept_positions(passes), device=device)
            logits = self._whisper.proj_out(decoder.layer_norm(states[kept])).float()
            outputs = [logits]
            if weights:
                outputs += cross.weights_of_streams(self._heads.in_order(weights))
            arrays = to_host(*outputs)
        caches = iter(attention.caches)
        for item in passes:
            item.decoder.caches = [next(caches) for _ in item.decoder.caches]
        return self._outputs(passes, arrays[0], iter(arrays[1:]))

    def _outputs(self, passes: Any, logits: Any, attention: Any) -> list[DecoderOutput]:
        outputs, first = [], 0
        for item in passes:
            rows, kept = len(item.tokens), len(item.logits_to_keep)
            stop = first + rows * kept
            outputs.append(
                DecoderOutput(
                    logits=logits[first:stop].reshape(rows, kept, -1),
                    cross_attention=next(attention) if item.output_attention else None,
                    rounding=self._rounding,
                )
            )
            first = stop
        return outputs

    def _to_device(self, features: list[NDArray[np.float32]]) -> torch.Tensor:
        return torch.from_numpy(np.stack(features)).to(self._whisper.device, self._whisper.dtype)

    def _check_room(self, item: DecoderPass[BatchDecoder]) -> None:
        rows, new = item.tokens.shape
        caches = item.decoder.caches
        if rows != len(caches):
            raise ValueError(f"expected tokens for {len(caches)} rows, got {rows}")
        length, most = caches[0].positions + new, self._whisper.config.max_target_positions
        if length > most:
            raise ValueError(f"expected at most {most} tokens in a row, got {length}")

    def _memory_of(self, passes: Sequence[DecoderPass[BatchDecoder]]) -> _CrossMemory:
        """Return the cross memory of the streams, made anew when a stream came or left."""
        streams = tuple(item.decoder.encoder_output.memory for item in passes)
        memory = self._cross_memory
        if memory is None or memory.streams != streams:
            # The old one goes before the new one is made, because both may not fit.
            memory = self._cross_memory = None
            memory = _CrossMemory.of(streams, self._whisper.model.decoder)
            self._cross_memory = memory
        return memory


class BatchDecoder:
    """The decoder over the encoder output of one stream in a batch; see Decoder."""

    def __init__(self, encoder_output: BatchEncoderOutput, cache: PagedCache) -> None:
        self.encoder_output = encoder_output
        self.caches = [cache]  #: of each row

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


@attrs.frozen(eq=False)
class _GroupedAttention:
    """The encoder's self-attention over packed windows: (rows, frames) of each group."""

    shapes: Sequence[tuple[int, int]]

    def __call__(self, attention: Any, states: torch.Tensor) -> torch.Tensor:
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        sizes = [rows * frames for rows, frames in self.shapes]
        groups = zip(*(projection(states).split(sizes) for projection in projections), strict=True)
        mixed = []
        for (rows, frames), group in zip(self.shapes, groups, strict=True):
            queries, keys, values = (
                split_heads(attention, part.view(rows, frames, -1)) for part in group
            )
            attended = functional.scaled_dot_product_attention(queries, keys, values)
            mixed.append(merge_heads(attended).flatten(0, 1))
        return torch.cat(mixed)


@attrs.frozen(kw_only=True, eq=False)
class _CrossPass:
    """The cross attention of one pass; the rows of a stream are one row of queries."""

    memory: _CrossMemory
    packing: Packing
    shapes: list[tuple[int, int]]  #: rows and new positions of each stream
    attending: list[int]  #: streams whose weights are returned

    @classmethod
    def of(
        cls,
        memory: _CrossMemory,
        passes: Sequence[DecoderPass[BatchDecoder]],
        device: torch.device,
    ) -> _CrossPass:
        return cls(
            memory=memory,
            packing=Packing.of([item.tokens.size for item in passes], device),
            shapes=[(item.tokens.shape[0], item.tokens.shape[1]) for item in passes],
            attending=[index for index, item in enumerate(passes) if item.output_attention],
        )

    def attend(
        self,
        layer: Any,
        index: int,
        states: torch.Tensor,
        heads: Sequence[int],
        weights: list[torch.Tensor],
    ) -> torch.Tensor:
        """Return packed states after cross-attention; appends to *weights* those of *heads*."""
        attention = layer.encoder_attn
        packed = attention.q_proj(layer.encoder_attn_layer_norm(states))
        queries = split_heads(attention, self.packing.pad(packed))
        keys, values = self.memory.layers[index]
        mask = self.memory.mask
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        if heads and self.attending:
            if len(self.attending) < len(self.shapes):
                queries, keys = queries[self.attending], keys[self.attending]
                mask = None if mask is None else mask[self.attending]
            weights.append(attention_weights(queries, keys, heads, mask))
        output: torch.Tensor = states + attention.out_proj(self.packing.pack(merge_heads(mixed)))
        return output

    def weights_of_streams(self, weights: torch.Tensor) -> list[torch.Tensor]:
        """Return float32[rows, heads, new, frames] of each attending stream."""
        parts = []
        for part, stream in zip(weights, self.attending, strict=True):
            rows, new = self.shapes[stream]
            frames = self.memory.streams[stream].frames
            cut = part[:, : rows * new, :frames]
            parts.append(cut.reshape(len(part), rows, new, frames).transpose(0, 1))
        return parts


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


def _kept_positions(passes: Sequence[DecoderPass[BatchDecoder]]) -> list[int]:
    """Return the packed positions whose logits are returned."""
    kept, first = [], 0
    for item in passes:
        rows, new = item.tokens.shape
        kept += [
            first + row * new + range(new)[index]
            for row in range(rows)
            for index in item.logits_to_keep
        ]
        first += rows * new
    return kept
