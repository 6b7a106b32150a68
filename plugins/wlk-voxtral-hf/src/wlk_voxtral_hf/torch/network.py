"""Run the Voxtral modules of transformers over several streams at once."""

from __future__ import annotations

from contextlib import contextmanager
import threading
from typing import TYPE_CHECKING, Any

import attrs
import torch

from wlk_frameworks.kv_pool import AttentionPass, KVPool
from wlk_frameworks.torch import inference
from wlk_voxtral.engine import predictions_of
from wlk_voxtral_hf.torch.encoder import attend, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from wlk_frameworks.kv_pool import KVCache
    from wlk_voxtral.network import DecoderRow, EncoderRow
    from wlk_voxtral.speculative import TokenPrediction
    from wlk_voxtral_hf.torch.encoder import EncoderCache

# In logits: a pass over several positions rounds differently from a pass over one.
MIN_MARGINS = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}
NO_WINDOW = 1 << 40  # more positions than a stream has


@attrs.frozen(kw_only=True, eq=False)
class AudioSteps:
    """The audio embeddings of a call, [steps, width], and its delay."""

    embeddings: Tensor
    delay_steps: int


@attrs.frozen(kw_only=True, eq=False)
class TorchPass:
    """A forward pass of the decoder over the positions of one stream; see ForwardPass."""

    predictions: list[TokenPrediction]
    kv_cache: KVCache

    def truncated(self, count: int) -> KVCache:
        """Return the KV cache after the first *count* positions."""
        return self.kv_cache.truncated(len(self.predictions) - count)


class TorchNetwork:
    """
    A VoxtralRealtimeForConditionalGeneration; see wlk_voxtral.network.Network.

    Its modules are called one by one, because the forward passes of transformers allow only one
    position and one delay for all rows.  Keys and values of all streams are in two pools.
    """

    def __init__(self, model: Any, *, eos_id: int) -> None:
        self.model = model
        self._eos_id = eos_id
        self._encoder_pool = self._new_pool(model.config.audio_config)
        self._decoder_pool = self._new_pool(model.config.text_config)
        self._scales: dict[int, Tensor] = {}  # by delay: [layers, width]
        self._lock = threading.RLock()

    def _new_pool(self, config: Any) -> KVPool:
        return KVPool(
            layers=config.num_hidden_layers,
            heads=config.num_key_value_heads,
            size=config.head_dim,
            window=config.sliding_window or NO_WINDOW,
            device=self.model.device,
            dtype=self.model.dtype,
        )

    @property
    def min_margin(self) -> float:
        """Margin in logits that a prediction of a wide pass needs to be kept."""
        return MIN_MARGINS.get(self.model.dtype, 0.25)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep other threads away from the pools, and track no gradients."""
        with self._lock, inference(self.model.device):
            yield

    def encode_batch(self, rows: Sequence[EncoderRow]) -> list[tuple[AudioSteps, EncoderCache]]:
        """Encode the next steps of several streams in one pass."""
        model = self.model.model
        frames, caches = encode(
            model.audio_tower,
            self._encoder_pool,
            [row.mel for row in rows],
            [row.cache for row in rows],
        )
        width = frames.shape[1] * self.model.config.downsample_factor
        embeddings = model.multi_modal_projector(frames.reshape(-1, width))
        steps = embeddings.split([row.steps for row in rows])
        return [
            (AudioSteps(embeddings=embedded, delay_steps=row.delay_steps), cache)
            for row, embedded, cache in zip(rows, steps, caches, strict=True)
        ]

    def forward_batch(self, rows: Sequence[DecoderRow]) -> list[TorchPass]:
        """Run the decoder over positions of several streams in one pass."""
        model, pool = self.model, self._decoder_pool
        counts = [len(row.token_ids) for row in rows]
        ids = torch.tensor([token for row in rows for token in row.token_ids], device=pool.device)
        steps = [
            row.audio.embeddings[row.first : row.first + count]
            for row, count in zip(rows, counts, strict=True)
        ]
        states = (model.get_input_embeddings()(ids) + torch.cat(steps)).to(model.dtype)
        attention = AttentionPass.of(
            pool, [row.kv_cache or pool.new_cache() for row in rows], counts
        )
        scales = self._row_scales([row.audio.delay_steps for row in rows], counts)
        decoder = model.model.language_model
        rotation = decoder.rotary_emb(states, position_ids=attention.position_ids)
        for index, layer in enumerate(decoder.layers):
            normal = layer.input_layernorm(states)
            states = states + attend(attention, layer.self_attn, index, normal, rotation)
            normal = layer.post_attention_layernorm(states) * scales[index]
            states = states + layer.mlp(normal)
        predictions = self._predictions(model.lm_head(decoder.norm(states)).float())
        passes: list[TorchPass] = []
        for count, kv_cache in zip(counts, attention.caches, strict=True):
            passes.append(TorchPass(predictions=predictions[:count], kv_cache=kv_cache))
            del predictions[:count]
        return passes

    def _row_scales(self, delays: Sequence[int], counts: Sequence[int]) -> Tensor:
        """Return the scales of all layers for the delays, [layers, 1 or positions, width]."""
        if len(set(delays)) == 1:
            return self._delay_scales(delays[0])[:, None]
        return torch.stack(
            [
                self._delay_scales(delay)
                for delay, count in zip(delays, counts, strict=True)
                for _ in range(count)
            ],
            dim=1,
        )

    def _delay_scales(self, delay_steps: int) -> Tensor:
        scales = self._scales.get(delay_steps)
        if scales is None:
            model = self.model
            delay = torch.full((1,), delay_steps, device=model.device, dtype=model.dtype)
            condition = model.model.time_embedding(delay)
            scales = torch.stack(
                [1 + layer.ada_rms_norm(condition) for layer in model.model.language_model.layers]
            )
            self._scales[delay_steps] = scales
        return scales

    def _predictions(self, logits: Tensor) -> list[TokenPrediction]:
        """Return the best id at each position other than end of text, which never ends a stream."""
        logits[:, self._eos_id] = -torch.inf
        best = logits.topk(2, dim=-1)
        probability = torch.exp(best.values[:, 0] - logits.logsumexp(dim=-1))
        margin = best.values[:, 0] - best.values[:, 1]
        rows = torch.stack([best.indices[:, 0].float(), probability, margin], dim=-1)
        return predictions_of(rows.tolist())
