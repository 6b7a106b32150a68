"""Voxtral Realtime of transformers as a synchronous step decoder."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

from wlk_core import WorkCounters
from wlk_core.streaming import TokenPrediction, speculative_decode
from wlk_voxtral.recognizer import silence_features
from wlk_voxtral_hf.state import (
    StreamState,
    frozen_cache,
    frozen_padding,
    thawed_cache,
    thawed_padding,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from wlk_core.streaming import LogMel
    from wlk_voxtral.tokenizer import TekkenTokenizer

__all__ = ["VoxtralEngine"]

FRAMES = 8  # of mel in a step of 80 ms
# A pass over several positions adds in another order than one over a single position.
LEAST_LEAD = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}  # logits


class VoxtralEngine:
    """
    A loaded model that any number of streams share.

    It holds the weights and, for each delay in use, the state behind the silence that opens every
    run.  Caches of a stream travel in its StreamState.
    """

    def __init__(self, model: Any, *, tekken: TekkenTokenizer, log_mel: LogMel) -> None:
        self._model = model
        self._tekken = tekken
        self._log_mel = log_mel
        self._openings: dict[int, StreamState] = {}
        self._lock = threading.Lock()

    @property
    def dtype(self) -> torch.dtype:
        """The arithmetic the model runs in."""
        dtype: torch.dtype = self._model.dtype
        return dtype

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self._model.device
        return device

    def decode(
        self,
        mel: NDArray[np.float32],
        state: StreamState | None,
        *,
        delay_steps: int,
        draft_steps: int,
    ) -> tuple[Sequence[TokenPrediction], StreamState, WorkCounters]:
        """Hear float32[8 n, mels]; see wlk_core.StepEngine."""
        with torch.inference_mode():
            opening = WorkCounters()
            if state is None:
                state, opening = self._opening(delay_steps)
            choices, state, work = self._run(mel, state, delay_steps, draft_steps)
            return choices, state, opening + work

    def _opening(self, delay_steps: int) -> tuple[StreamState, WorkCounters]:
        """Return the state behind all but the last step of the silence in front of a run."""
        with self._lock:  # the first stream of a delay pays, all others find it done
            if delay_steps in self._openings:
                return self._openings[delay_steps], WorkCounters()
            steps = max(self._tekken.left_pad_steps - 1, 0)
            prompt = self._tekken.prompt(delay_steps)
            state = StreamState(positions=0, given=prompt, decoder=(), encoder=(), padding=())
            work = WorkCounters()
            if steps:
                mel = silence_features(self._log_mel, steps)
                _, state, work = self._run(mel, state, delay_steps, 1)
            self._openings[delay_steps] = state
            return state, work

    def _run(
        self, mel: NDArray[np.float32], state: StreamState, delay_steps: int, draft_steps: int
    ) -> tuple[list[TokenPrediction], StreamState, WorkCounters]:
        positions = len(mel) // FRAMES
        audio, encoder, padding = self._encode(mel, state)
        decoder = _Pass(self._model, state, audio, delay_steps, eos=self._tekken.eos_id)
        choices = speculative_decode(
            decoder,
            positions,
            known_ids=state.given,
            pad=self._tekken.pad_id,
            marker=self._tekken.word_id,
            width=draft_steps,
            min_margin=LEAST_LEAD.get(self.dtype, 0.25),
        )
        given = state.given[positions:] or (choices[-1].id,)
        after = StreamState(
            positions=state.positions + positions,
            given=given,
            decoder=decoder.layers,
            encoder=encoder,
            padding=padding,
        )
        work = WorkCounters(
            encoder_frames=len(mel),
            decoder_positions=decoder.ran,
            decoder_forwards=decoder.passes,
            host_syncs=decoder.passes,
        )
        return choices, after, work

    def _encode(self, mel: NDArray[np.float32], state: StreamState) -> tuple[Any, Any, Any]:
        """Return float[n, width] of audio embeddings and the caches behind them."""
        features = torch.from_numpy(mel.T[None]).to(self.device, self.dtype)
        config = self._model.config
        factor = config.downsample_factor
        heard = self._model.model.get_audio_features(
            input_features=features,
            padding_cache=thawed_padding(state.padding) if state.padding else None,
            past_key_values=thawed_cache(
                state.encoder, factor * state.positions, config.audio_config
            )
            if state.encoder
            else None,
            use_cache=True,
        )
        encoder = frozen_cache(heard.past_key_values)
        return heard.pooler_output[0], encoder, frozen_padding(heard.padding_cache)


class _Pass:
    """The decoder over steps whose audio is there; its caches grow as positions are kept."""

    def __init__(
        self, model: Any, state: StreamState, audio: Tensor, delay_steps: int, *, eos: int
    ) -> None:
        self._model = model
        self._audio = audio
        delay = torch.full((1,), delay_steps, device=audio.device, dtype=model.dtype)
        self._condition = model.model.time_embedding(delay)[None]
        self._eos = eos
        self._first = state.positions
        self._kept = 0  # positions of this call
        self._before = state.decoder
        self.layers = state.decoder
        self.passes = self.ran = 0

    def forward(self, ids: Sequence[int]) -> list[TokenPrediction]:
        """Run the next positions; see StepModel."""
        model, count = self._model, len(ids)
        tokens = torch.tensor([list(ids)], device=self._audio.device)
        embedded = model.get_input_embeddings()(tokens)
        embedded = embedded + self._audio[None, self._kept : self._kept + count]
        config = model.config.text_config
        cache = thawed_cache(self.layers, self._first + self._kept, config) if self.layers else None
        heard = model.model.language_model(
            inputs_embeds=embedded.to(model.dtype),
            past_key_values=cache,
            t_cond=self._condition,
            use_cache=True,
        )
        self._before, self.layers = self.layers, frozen_cache(heard.past_key_values)
        self._kept += count
        self._last_count = count
        self.passes += 1
        self.ran += count
        return self._choose(model.lm_head(heard.last_hidden_state)[0].float())

    def truncate(self, count: int) -> None:
        """Go back to behind the first *count* positions of the last pass."""
        dropped = self._last_count - count
        window = self._model.config.text_config.sliding_window
        self.layers = tuple(
            (
                _shortened(keys, old[0], self._last_count, count, window),
                _shortened(values, old[1], self._last_count, count, window),
            )
            for (keys, values), old in zip(
                self.layers, self._before or ((None, None),) * len(self.layers), strict=True
            )
        )
        self._kept -= dropped

    def _choose(self, logits: Tensor) -> list[TokenPrediction]:
        """Take the most probable id at each position; a stream never ends by itself."""
        logits[:, self._eos] = -torch.inf
        best = logits.topk(2, dim=-1)
        probability = torch.exp(best.values[:, 0] - logits.logsumexp(dim=-1))
        lead = best.values[:, 0] - best.values[:, 1]
        told = torch.stack([best.indices[:, 0].float(), probability, lead], dim=-1).tolist()
        return [
            TokenPrediction(int(token), min(1.0, chance), ahead) for token, chance, ahead in told
        ]


def _shortened(
    grown: Tensor, before: Tensor | None, added: int, kept: int, window: int | None
) -> Tensor:
    """Return keys or values [1, heads, n, size] with *kept* of the *added* last positions."""
    fresh = grown[:, :, grown.shape[2] - added :][:, :, :kept]
    whole = fresh if before is None else torch.cat([before, fresh], dim=2)
    return whole if window is None else whole[:, :, -(window - 1) :]
