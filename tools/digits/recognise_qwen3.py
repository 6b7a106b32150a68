"""Greedy decoding with a model over the compact vocabulary, and where it looks as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches_qwen3 import SHORTEST_SAMPLES
from features_qwen3 import CHUNK_FRAMES, normalise, raw_log_mel, token_spans
import numpy as np
from scoring import Heard
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
) -> tuple[Heard, ...]:
    """
    Return the words in audio of more than 200 samples, heard at once.

    Args:
        model: over the compact vocabulary, attention handed out.
        audio: float32[samples] at 16 kHz.
        heads: (layer, head) pairs; words lie where their attention to the audio, averaged, peaks.
        forced: give the header that names English instead of asking for one.

    """
    padded = np.pad(audio, (0, max(SHORTEST_SAMPLES - len(audio), 0)))
    mel = normalise(raw_log_mel(padded))
    spans = token_spans(mel.shape[1])
    features, mask = _framed(mel)
    opening = [*prefix(), *[PAD] * len(spans), *SUFFIX]
    told = [*opening, *(header(NAMES[0]) if forced else ())]
    first = len(opening) - len(SUFFIX) - len(spans)
    heard = model.model(
        input_ids=torch.tensor([told]),
        input_features=features,
        input_features_mask=mask,
        use_cache=True,
        output_attentions=True,
    )
    said: list[int] = []
    places: list[int] = []
    while len(said) < MOST_TOKENS:
        logits = model.lm_head(heard.last_hidden_state[0, -1])
        logits[-1] += LOG_UNUSED
        token = int(logits.argmax())
        if token == END:
            break
        rows = torch.stack([heard.attentions[layer][0, head, -1] for layer, head in heads])
        rows = rows[:, first : first + len(spans)]
        places.append(int((rows / rows.sum(-1, keepdim=True)).mean(0).argmax()))
        said.append(token)
        position = len(told) + len(said) - 1
        heard = model.model(
            input_ids=torch.tensor([[token]]),
            past_key_values=heard.past_key_values,
            position_ids=torch.tensor([[position]]),
            use_cache=True,
            output_attentions=True,
        )
    return tuple(
        Heard(text=_TEXTS.get(token, "?"), start=spans[place][0], end=spans[place][1])
        for token, place in list(zip(said, places, strict=True))[0 if forced else _HEADER :]
    )


def _framed(mel: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1, 128, S features filled up to whole seconds, and which frames are audio."""
    frames = mel.shape[1]
    filler = -frames % CHUNK_FRAMES
    features = torch.from_numpy(np.pad(mel, ((0, 0), (0, filler))))[None]
    mask = torch.arange(frames + filler)[None] < frames
    return features, mask.long()
