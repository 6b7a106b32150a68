"""Greedy decoding with a model over the compact vocabulary, and what it attends to meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches_qwen3 import SHORTEST_SAMPLES
from features_qwen3 import CHUNK_FRAMES, normalise, raw_log_mel, token_spans
import numpy as np
from scoring import RecognisedWord
import torch
from vocabulary import DIGITS
from vocabulary_qwen3 import END, FIRST_WORDS, LOG_UNUSED, NAMES, PAD, SUFFIX, WORDS, header, prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recordings import Audio
    from transformers import Qwen3ASRForConditionalGeneration

__all__ = ["recognise"]

MOST_TOKENS = 120
_HEADER = 3  # tokens: "language", its name, the mark that ends it
_TEXTS = {token: DIGITS[token % 10] for token in (*WORDS, *FIRST_WORDS)}


@torch.inference_mode()
def recognise(
    model: Qwen3ASRForConditionalGeneration,
    audio: Audio,
    heads: Sequence[tuple[int, int]],
    *,
    forced: bool = True,
) -> tuple[RecognisedWord, ...]:
    """
    Return the words in audio of more than 200 samples, output at once.

    Args:
        model: over the compact vocabulary, attention handed out.
        audio: float32[samples] at 16 kHz.
        heads: (layer, head) pairs; words lie where their attention to the audio, averaged, peaks.
        forced: give the header that names English instead of decoding one.

    """
    padded = np.pad(audio, (0, max(SHORTEST_SAMPLES - len(audio), 0)))
    mel = normalise(raw_log_mel(padded))
    spans = token_spans(mel.shape[1])
    features, mask = _framed(mel)
    opening = [*prefix(), *[PAD] * len(spans), *SUFFIX]
    prompt = [*opening, *(header(NAMES[0]) if forced else ())]
    first = len(opening) - len(SUFFIX) - len(spans)
    output = model.model(
        input_ids=torch.tensor([prompt]),
        input_features=features,
        input_features_mask=mask,
        use_cache=True,
        output_attentions=True,
    )
    emitted: list[int] = []
    positions: list[int] = []
    while len(emitted) < MOST_TOKENS:
        logits = model.lm_head(output.last_hidden_state[0, -1])
        logits[-1] += LOG_UNUSED
        token = int(logits.argmax())
        if token == END:
            break
        rows = torch.stack([output.attentions[layer][0, head, -1] for layer, head in heads])
        rows = rows[:, first : first + len(spans)]
        positions.append(int((rows / rows.sum(-1, keepdim=True)).mean(0).argmax()))
        emitted.append(token)
        position = len(prompt) + len(emitted) - 1
        output = model.model(
            input_ids=torch.tensor([[token]]),
            past_key_values=output.past_key_values,
            position_ids=torch.tensor([[position]]),
            use_cache=True,
            output_attentions=True,
        )
    return tuple(
        RecognisedWord(
            text=_TEXTS.get(token, "?"), start=spans[span_index][0], end=spans[span_index][1]
        )
        for token, span_index in list(zip(emitted, positions, strict=True))[
            0 if forced else _HEADER :
        ]
    )


def _framed(mel: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1, 128, S features filled up to whole seconds, and which frames are audio."""
    frames = mel.shape[1]
    filler = -frames % CHUNK_FRAMES
    features = torch.from_numpy(np.pad(mel, ((0, 0), (0, filler))))[None]
    mask = torch.arange(frames + filler)[None] < frames
    return features, mask.long()
