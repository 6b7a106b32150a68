"""Qwen3-ASR on torch: the classes of transformers behind the seam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch.nn import functional

from wlk_qwen3_simul.audio.frames import CHUNK_FRAMES, token_count
from wlk_qwen3_simul.simul.network import Looked
from wlk_qwen3_simul.torch_attention import Looking
from wlk_qwen3_simul.torch_memory import TorchMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from transformers import Qwen3ASRForConditionalGeneration

    from wlk_qwen3_simul.simul.network import Part

__all__ = ["TorchEncoded", "TorchNetwork"]


@attrs.frozen(eq=False)
class TorchEncoded:
    """Embeddings of the audio tokens of one window, [tokens, width]."""

    embeddings: torch.Tensor

    @property
    def tokens(self) -> int:
        """Audio tokens of the window."""
        return int(self.embeddings.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the embeddings."""
        return int(self.embeddings.nbytes)


class TorchNetwork:
    """A Qwen3-ASR on torch, shared by all streams and never changed; see Network."""

    def __init__(
        self,
        model: Qwen3ASRForConditionalGeneration,
        *,
        alignment_heads: Sequence[tuple[int, int]],
    ) -> None:
        self._model: Any = model
        places: dict[int, list[int]] = {}
        for layer, head in alignment_heads:
            places.setdefault(layer, []).append(head)
        self._heads = {
            layer: torch.tensor(heads, device=self.device) for layer, heads in places.items()
        }

    @property
    def mels(self) -> int:
        """Mel bands of a frame."""
        return int(self._model.config.audio_config.num_mel_bins)

    @property
    def window_frames(self) -> int:
        """Mel frames of a window."""
        return int(self._model.config.audio_config.n_window_infer)

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return int(self._model.config.text_config.vocab_size)

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return torch.device(self._model.device)

    @property
    def dtype(self) -> torch.dtype:
        """The arithmetic the model runs in."""
        dtype: torch.dtype = self._model.dtype
        return dtype

    def convolve(self, features: NDArray[np.float32]) -> torch.Tensor:
        """
        Convolve float32[mels, frames], at most one second.

        Raises:
            ValueError: there are no frames, or more than a second has.

        """
        frames = features.shape[1]
        if not 0 < frames <= CHUNK_FRAMES:
            raise ValueError(f"expected 1 to {CHUNK_FRAMES} frames, got {frames}")
        tower = self._model.model.audio_tower
        # The convolutions see zeros behind the last second, as they do in any longer audio.
        padded = np.zeros((self.mels, CHUNK_FRAMES), dtype=np.float32)
        padded[:, :frames] = features
        with torch.inference_mode():
            states = torch.from_numpy(padded)[None, None].to(self.device, self.dtype)
            for convolution in (tower.conv2d1, tower.conv2d2, tower.conv2d3):
                states = functional.gelu(convolution(states))
            states = tower.conv_out(states.permute(0, 3, 1, 2).flatten(2))[0]
            places = tower.positional_embedding.positional_embedding[: len(states)]
            stem: torch.Tensor = states + places.to(states.dtype)
            return stem[: token_count(frames)].clone()

    def encode(self, stems: Sequence[torch.Tensor]) -> TorchEncoded:
        """Encode the seconds of at most one window."""
        tower = self._model.model.audio_tower
        with torch.inference_mode():
            states = torch.cat(list(stems))
            whole = torch.tensor([0, len(states)], dtype=torch.int32)
            for layer in tower.layers:
                states = layer(states, whole, max_seqlen=len(states))[0]
            return TorchEncoded(self._model.model.multi_modal_projector(tower.ln_post(states)))

    def open(self) -> TorchMemory:
        """Return a memory without positions."""
        return TorchMemory()

    def extend(
        self, memory: TorchMemory, parts: Sequence[Part], *, rows: int, audio: tuple[int, int]
    ) -> Looked:
        """Run *parts* behind what *memory* holds; one transfer to the host. See Network."""
        language = self._model.model.language_model
        with torch.inference_mode():
            embedded = torch.cat([self._embedded(part) for part in parts])[None]
            held, new = memory.length, embedded.shape[1]
            mask = None
            if held and new > 1:
                mask = torch.ones(new, held + new, dtype=torch.bool, device=self.device)
                mask = mask.tril(diagonal=held)[None, None]
            looking = Looking(self._heads, rows, audio)
            states = language(
                inputs_embeds=embedded,
                position_ids=torch.arange(held, held + new, device=self.device)[None],
                attention_mask={"full_attention": mask},
                past_key_values=memory,
                use_cache=True,
                looking=looking,
            ).last_hidden_state[0, -rows:]
            logits = self._model.lm_head(states).float()
            likeliest, ids = logits.max(dim=-1)
            log_probs = likeliest - logits.logsumexp(dim=-1)
            told = [
                # Whole numbers below 2**24 are exact in float32.
                ids.float()[:, None],
                log_probs[:, None],
                torch.cat(looking.heeds).mean(dim=0)[:, None],
                torch.cat(looking.weights).mean(dim=0),
            ]
            arrived = torch.cat(told, dim=1).cpu().numpy()
        memory.length = held + new
        return Looked(
            ids=arrived[:, 0].astype(np.int64),
            log_probs=arrived[:, 1],
            heed=arrived[:, 2],
            attention=arrived[:, 3:],
        )

    def _embedded(self, part: Part) -> torch.Tensor:
        if isinstance(part, TorchEncoded):
            return part.embeddings
        ids = torch.tensor(part, dtype=torch.long, device=self.device)
        embedded: torch.Tensor = self._model.model.language_model.embed_tokens(ids)
        return embedded
