"""The Network on MLX, on the plugin's own modules or those of voxmlx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import mlx.core as mx

from wlk_voxtral.engine import predictions_of
from wlk_voxtral_mlx.mlx.forward import EncoderCache, decode, encode
from wlk_voxtral_mlx.mlx.kv_cache import KVCache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from wlk_frameworks.mlx import SharedStream
    from wlk_voxtral.network import DecoderRow, EncoderRow
    from wlk_voxtral.speculative import TokenPrediction
    from wlk_voxtral_mlx.checkpoint import ModelConfig

# In logits: a pass over several positions rounds differently from a pass over one.
MIN_MARGIN = 1e-3  # in float32
MIN_MARGIN_HALF = 0.25  # in half precision, or with quantized weights


@attrs.frozen(kw_only=True, eq=False)
class AudioSteps:
    """The audio embeddings of a call, [steps, width], and the embedding of its delay."""

    embeddings: mx.array
    condition: mx.array
    encoder_cache: EncoderCache  #: evaluated together with the first forward pass


@attrs.frozen(kw_only=True, eq=False)
class MlxPass:
    """A forward pass of the decoder; see wlk_voxtral.network.ForwardPass."""

    predictions: list[TokenPrediction]
    kv_cache: KVCache

    def truncated(self, count: int) -> KVCache:
        """Shorten the KV cache to the first *count* positions, and return it."""
        self.kv_cache.drop(len(self.predictions) - count)
        return self.kv_cache


class MlxNetwork:
    """A model of MLX modules; see wlk_voxtral.network.Network."""

    def __init__(
        self, model: Any, config: ModelConfig, *, eos_id: int, stream: SharedStream
    ) -> None:
        self.model = model
        self.config = config
        self._stream = stream
        self._eos_id = eos_id
        is_float32 = model.encoder.norm.weight.dtype == mx.float32
        is_exact = is_float32 and config.quantization is None
        self._min_margin = MIN_MARGIN if is_exact else MIN_MARGIN_HALF

    @property
    def min_margin(self) -> float:
        """Margin in logits that a prediction of a wide pass needs to be kept."""
        return self._min_margin

    def running(self) -> AbstractContextManager[None]:
        """Hold the MLX stream that all threads share."""
        return self._stream.acquire()

    def encode_batch(self, rows: Sequence[EncoderRow]) -> list[tuple[AudioSteps, EncoderCache]]:
        """Encode the next steps of each stream."""
        return [self._encode(row) for row in rows]

    def forward_batch(self, rows: Sequence[DecoderRow]) -> list[MlxPass]:
        """Run the decoder over the positions of each stream."""
        return [self._forward(row) for row in rows]

    def _encode(self, row: EncoderRow) -> tuple[AudioSteps, EncoderCache]:
        embeddings, new_cache = encode(
            self.model,
            mx.array(row.mel),
            row.cache or EncoderCache.at_start(self.model),
            window=self.config.encoder.window,
            downsampling=self.config.downsampling,
        )
        condition = self.model.time_embedding(mx.array([row.delay_steps], dtype=mx.float32))
        audio = AudioSteps(embeddings=embeddings, condition=condition, encoder_cache=new_cache)
        return audio, new_cache

    def _forward(self, row: DecoderRow) -> MlxPass:
        logits, kv_cache = decode(
            self.model,
            row.audio.embeddings[row.first : row.first + len(row.token_ids)],
            row.token_ids,
            row.kv_cache or KVCache(),
            condition=row.audio.condition,
            window=self.config.decoder.window,
            planned=row.audio.embeddings.shape[0] - row.first,
        )
        is_eos = mx.arange(logits.shape[-1]) == self._eos_id  # end of text never ends a stream
        rows: Any = _best(mx.where(is_eos, -mx.inf, logits))
        # Nothing lazy may remain after a call, because the next one may come from another thread.
        mx.eval(rows, row.audio.encoder_cache.arrays, kv_cache.arrays)
        return MlxPass(predictions=predictions_of(rows.tolist()), kv_cache=kv_cache)


def _best(logits: mx.array) -> mx.array:
    """Return float32[n, 3]: the most probable id, its probability and its margin in logits."""
    best = mx.argmax(logits, axis=-1, keepdims=True)
    top = mx.take_along_axis(logits, best, axis=-1)
    others = mx.where(mx.arange(logits.shape[-1]) == best, -mx.inf, logits)
    probability = mx.exp(top - mx.logsumexp(logits, axis=-1, keepdims=True))
    margin = top - others.max(axis=-1, keepdims=True)
    return mx.concatenate([best.astype(mx.float32), probability, margin], axis=-1)
