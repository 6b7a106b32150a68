"""The scores of a model's heads over clips with known word times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from wlk_core.audio import decode_file
from wlk_core.frameworks.torch import choose_device
from wlk_core.plugins import SAMPLE_RATE, OptionError, locate
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.detect_heads.forward import AllHeads
from wlk_qwen3_simul.detect_heads.scores import Scores
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.torch.checkpoint import load_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from wlk_core.plugins import BackendSpec
    from wlk_qwen3_simul.detect_heads.manifest import Clip

__all__ = ["score_clips", "tokens_with_spans"]

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
