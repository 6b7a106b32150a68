"""One teacher-forced pass over a clip, and where every head of the decoder looked in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wlk_qwen3_simul.audio.frames import CHUNK_FRAMES
from wlk_qwen3_simul.audio.mel import MelStream, normalised
from wlk_qwen3_simul.text.prompt import PromptBuilder
from wlk_qwen3_simul.torch_attention import Looking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from transformers import Qwen3ASRForConditionalGeneration

    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["AllHeads"]


class AllHeads:
    """A loaded model, asked where all of its heads look while it is told what is said."""

    def __init__(self, model: Qwen3ASRForConditionalGeneration, vocabulary: Vocabulary) -> None:
        self._model: Any = model
        self._prompt = PromptBuilder.of(vocabulary)
        text: Any = model.config.text_config
        self.layers = int(text.num_hidden_layers)
        self.heads = int(text.num_attention_heads)

    def attend(
        self, audio: NDArray[np.float32], text: Sequence[int], *, language: str
    ) -> NDArray[np.float32]:
        """
        Return float32[layers, heads, text + 1, audio tokens]: a softmax over the audio alone.

        Row i is the one that predicts token i of the text; row i + 1 is that at which it is fed.

        Args:
            audio: float32[n] at 16 kHz.
            text: ids of all that is said in it, without the end.
            language: code of the language, which the header names.

        """
        heard = self._encode(audio)
        first = len(self._prompt.before)
        told = (*self._prompt.after, *self._prompt.header(language), *text)
        every = torch.arange(self.heads, device=self._model.device)
        looking = Looking(
            dict.fromkeys(range(self.layers), every), len(text) + 1, (first, first + len(heard))
        )
        language_model = self._model.model.language_model
        with torch.inference_mode():
            embed = language_model.embed_tokens
            before, after = (
                embed(torch.tensor(ids, device=heard.device)) for ids in (self._prompt.before, told)
            )
            embedded = torch.cat([before, heard, after])[None]
            language_model(inputs_embeds=embedded, use_cache=False, looking=looking)
        attention: NDArray[np.float32] = torch.stack(looking.weights).float().cpu().numpy()
        return attention

    def _encode(self, audio: NDArray[np.float32]) -> torch.Tensor:
        """Return [audio tokens, width]: the whole clip at once, windows and all."""
        mel = MelStream(int(self._model.config.audio_config.num_mel_bins))
        mel.push(audio)
        raw = np.concatenate([mel.between(0, mel.final), mel.provisional()], axis=1)
        frames = raw.shape[1]
        filler = -frames % CHUNK_FRAMES
        features = np.pad(normalised(raw, float(raw.max())), ((0, 0), (0, filler)))
        mask = torch.arange(frames + filler, device=self._model.device) < frames
        with torch.inference_mode():
            embeddings: torch.Tensor = self._model.get_audio_features(
                torch.from_numpy(features)[None].to(self._model.device, self._model.dtype),
                mask[None].long(),
                return_dict=True,
            ).pooler_output
        return embeddings
