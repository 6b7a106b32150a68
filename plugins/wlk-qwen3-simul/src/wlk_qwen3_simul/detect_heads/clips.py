"""Score the heads of a model over clips with known word times, one forward a clip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wlk_core.audio import decode_file
from wlk_core.frameworks.torch import choose_device
from wlk_core.plugins import SAMPLE_RATE, OptionError, locate
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.detect_heads.scores import Scores
from wlk_qwen3_simul.engine.encoder import IncrementalEncoder
from wlk_qwen3_simul.engine.prompt import ChatPrompt
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.torch.attention import AttentionCapture
from wlk_qwen3_simul.torch.checkpoint import load_model
from wlk_qwen3_simul.torch.network import TorchNetwork

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from transformers import Qwen3ASRForConditionalGeneration

    from wlk_core.plugins import BackendSpec
    from wlk_qwen3_simul.detect_heads.manifest import Clip

__all__ = ["AllHeads", "score_clips", "tokens_with_spans"]

SLACK_SECONDS = 0.1  # that a word may end after its audio


def score_clips(
    model: str,
    clips: Iterable[Clip],
    *,
    spec: BackendSpec,
    device: str = "cpu",
    cache_dir: str | None = None,
) -> Scores:
    """
    Return the scores of all heads of *model*, in float32.

    Raises:
        ModelNotFoundError: the model is missing or damaged.
        AudioFormatError: a clip cannot be decoded.
        OptionError: a word lies after the end of its clip, or the device name is unknown.
        BackendUnavailable: the device is missing.

    """
    chosen = choose_device(device)
    directory = locate(model, spec=spec, bundled=BUNDLED, cache_dir=cache_dir)
    vocabulary = Vocabulary.read(directory)
    loaded = load_model(directory, device=chosen, dtype=torch.float32)
    heads = AllHeads(loaded, vocabulary)
    scores = Scores.zero(heads.layers, heads.heads)
    for clip in clips:
        audio = _decode(clip)
        text, spans = tokens_with_spans(clip, vocabulary)
        if text:
            scores.add(heads.attend(audio, text, language=clip.language), spans)
    return scores


def tokens_with_spans(
    clip: Clip, vocabulary: Vocabulary
) -> tuple[list[int], list[tuple[float, float]]]:
    """Return the ids of the transcript, and for each the seconds of the word it belongs to."""
    text: list[int] = []
    spans: list[tuple[float, float]] = []
    for word, piece in zip(clip.words, clip.pieces, strict=True):
        ids = vocabulary.encode(piece)
        text += ids
        spans += [(word.start, word.end)] * len(ids)
    return text, spans


def _decode(clip: Clip) -> NDArray[np.float32]:
    pieces = [np.empty(0, np.float32), *decode_file(clip.audio)]
    audio: NDArray[np.float32] = np.concatenate(pieces)
    seconds = len(audio) / SAMPLE_RATE
    if clip.words and clip.words[-1].end > seconds + SLACK_SECONDS:
        raise OptionError(
            f"{clip.audio} is {seconds:.2f} s long, and the manifest has a word in it that ends at "
            f"{clip.words[-1].end:g} s"
        )
    return audio


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
        """Return the embeddings of the whole clip, [audio tokens, width]."""
        encoder = IncrementalEncoder(TorchNetwork(self._model, alignment_heads=()))
        encoded = encoder.encode(audio, first_sample=0)
        return torch.cat([window.embeddings for window in encoded.windows])
