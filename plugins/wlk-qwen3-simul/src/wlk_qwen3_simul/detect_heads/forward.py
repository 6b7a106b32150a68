"""One teacher-forced forward over a clip, with the attention of every decoder head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wlk_qwen3_simul.engine.frames import SECOND_MEL_FRAMES
from wlk_qwen3_simul.engine.mel import MelStream, normalise
from wlk_qwen3_simul.engine.prompt import ChatPrompt
from wlk_qwen3_simul.torch.attention import AttentionCapture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from transformers import Qwen3ASRForConditionalGeneration

    from wlk_qwen3_simul.engine.vocabulary import Vocabulary

__all__ = ["AllHeads"]


class AllHeads:
    """A loaded model whose heads are all captured while it is forced to emit a transcript."""

    def __init__(self, model: Qwen3ASRForConditionalGeneration, vocabulary: Vocabulary) -> None:
        self._model: Any = model
        self._prompt = ChatPrompt.build(vocabulary)
        text: Any = model.config.text_config
        self.layers = int(text.num_hidden_layers)
        self.heads = int(text.num_attention_heads)

    def attend(
        self, audio: NDArray[np.float32], text: Sequence[int], *, language: str
    ) -> NDArray[np.float32]:
        """
        Return float32[layers, heads, text + 1, audio tokens]: a softmax over the audio alone.

        Row i is the step that predicts token i of the text; row i + 1 is the step it is fed at.

        Args:
            audio: float32[n] at 16 kHz.
            text: ids of the whole transcript, without the end.
            language: code of the language, which the header names.

        """
        encoded = self._encode(audio)
        first = len(self._prompt.before_audio)
        forced = (*self._prompt.after_audio, *self._prompt.header(language), *text)
        all_heads = torch.arange(self.heads, device=self._model.device)
        capture = AttentionCapture(
            dict.fromkeys(range(self.layers), all_heads),
            len(text) + 1,
            (first, first + len(encoded)),
        )
        decoder = self._model.model.language_model
        with torch.inference_mode():
            before, after = (
                decoder.embed_tokens(torch.tensor(ids, device=encoded.device))
                for ids in (self._prompt.before_audio, forced)
            )
            embedded = torch.cat([before, encoded, after])[None]
            decoder(inputs_embeds=embedded, use_cache=False, attention_capture=capture)
        attention: NDArray[np.float32] = torch.stack(capture.weights).float().cpu().numpy()
        return attention

    def _encode(self, audio: NDArray[np.float32]) -> torch.Tensor:
        """Return the embeddings of the whole clip, [audio tokens, width], encoded at once."""
        mel = MelStream(int(self._model.config.audio_config.num_mel_bins))
        mel.push(audio)
        log_mel = np.concatenate([mel.between(0, mel.final), mel.provisional()], axis=1)
        frames = log_mel.shape[1]
        padding = -frames % SECOND_MEL_FRAMES
        features = np.pad(normalise(log_mel, float(log_mel.max())), ((0, 0), (0, padding)))
        mask = torch.arange(frames + padding, device=self._model.device) < frames
        with torch.inference_mode():
            embeddings: torch.Tensor = self._model.get_audio_features(
                torch.from_numpy(features)[None].to(self._model.device, self._model.dtype),
                mask[None].long(),
                return_dict=True,
            ).pooler_output
        return embeddings
