"""The model of transformers as the network of a Voxtral engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

from wlk_voxtral.engine import predictions_of
from wlk_voxtral.step import STEP_FRAMES
from wlk_voxtral_hf.torch.caches import EncoderCache, KVCache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from wlk_core.streaming import TokenPrediction

__all__ = ["TorchNetwork"]

# Logits: a pass over several positions rounds differently from a pass over a single one.
MIN_MARGINS = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


@attrs.frozen(kw_only=True, eq=False)
class AudioSteps:
    """The audio embeddings of a call, [steps, width], and the embedding of its delay."""

    embeddings: Tensor
    condition: Tensor


@attrs.frozen(kw_only=True, eq=False)
class TorchPass:
    """A forward pass of the decoder; see wlk_voxtral.engine.ForwardPass."""

    predictions: list[TokenPrediction]
    kv_cache: KVCache
    kv_cache_before: KVCache | None
    window: int | None

    def truncated(self, count: int) -> KVCache:
        """Return the KV cache after the first *count* positions."""
        return self.kv_cache.truncated(
            self.kv_cache_before, added=len(self.predictions), kept=count, window=self.window
        )


class TorchNetwork:
    """A VoxtralRealtimeForConditionalGeneration; see wlk_voxtral.engine.Network."""

    def __init__(self, model: Any, *, eos_id: int) -> None:
        self.model = model
        self._eos_id = eos_id

    @property
    def min_margin(self) -> float:
        """Logits by which a prediction of a wide pass must lead, by the model's arithmetic."""
        return MIN_MARGINS.get(self.model.dtype, 0.25)

    def running(self) -> AbstractContextManager[None]:
        """Keep no gradients."""
        mode: AbstractContextManager[None] = torch.inference_mode()
        return mode

    def encode(
        self, mel: NDArray[np.float32], cache: EncoderCache | None, *, delay_steps: int
    ) -> tuple[AudioSteps, EncoderCache]:
        """Return the audio embeddings of float32[8 n, mels] and the encoder's cache."""
        model = self.model
        features = torch.from_numpy(mel.T[None]).to(model.device, model.dtype)
        output = model.model.get_audio_features(
            input_features=features,
            padding_cache=cache.unpacked_padding() if cache else None,
            past_key_values=cache.unpacked(model.config.audio_config) if cache else None,
            use_cache=True,
        )
        frames = len(mel) // STEP_FRAMES * model.config.downsample_factor
        new_cache = EncoderCache.of(
            output.past_key_values,
            output.padding_cache,
            positions=frames + (cache.positions if cache else 0),
        )
        delay = torch.full((1,), delay_steps, device=model.device, dtype=model.dtype)
        condition = model.model.time_embedding(delay)[None]
        return AudioSteps(embeddings=output.pooler_output[0], condition=condition), new_cache

    def forward(
        self,
        token_ids: Sequence[int],
        audio: AudioSteps,
        *,
        first: int,
        kv_cache: KVCache | None,
        position: int,
    ) -> TorchPass:
        """Run the decoder over the steps of *audio* from *first* on."""
        model, config = self.model, self.model.config.text_config
        ids = torch.tensor([list(token_ids)], device=audio.embeddings.device)
        embedded = model.get_input_embeddings()(ids)
        embedded = embedded + audio.embeddings[None, first : first + len(token_ids)]
        output = model.model.language_model(
            inputs_embeds=embedded.to(model.dtype),
            past_key_values=kv_cache.unpacked(position, config) if kv_cache else None,
            t_cond=audio.condition,
            use_cache=True,
        )
        return TorchPass(
            predictions=self._predictions(model.lm_head(output.last_hidden_state)[0].float()),
            kv_cache=KVCache.of(output.past_key_values),
            kv_cache_before=kv_cache,
            window=config.sliding_window,
        )

    def _predictions(self, logits: Tensor) -> list[TokenPrediction]:
        """Take the most probable id at each position; end of text never ends a stream."""
        logits[:, self._eos_id] = -torch.inf
        best = logits.topk(2, dim=-1)
        probability = torch.exp(best.values[:, 0] - logits.logsumexp(dim=-1))
        margin = best.values[:, 0] - best.values[:, 1]
        rows = torch.stack([best.indices[:, 0].float(), probability, margin], dim=-1)
        return predictions_of(rows.tolist())
