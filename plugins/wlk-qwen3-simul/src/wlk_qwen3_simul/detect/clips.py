"""From a model and clips to the scores of its heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from wlk_core import OptionError
from wlk_core.audio import decode_file
from wlk_core.models import locate
from wlk_qwen3_simul.detect.forward import AllHeads
from wlk_qwen3_simul.detect.scores import Scores
from wlk_qwen3_simul.loading import BUNDLED, read_beside
from wlk_qwen3_simul.specs import QWEN3_SIMUL
from wlk_qwen3_simul.torch_checkpoint import load_model
from wlk_qwen3_simul.torch_device import device_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from wlk_qwen3_simul.detect.manifest import Clip
    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["score_clips", "tokens_of"]

SLACK = 0.1  # seconds that a word may end behind its audio


def score_clips(
    model: str, clips: Iterable[Clip], *, device: str = "cpu", cache_dir: str | None = None
) -> Scores:
    """
    Return the scores of all heads of *model*, in float32.

    Raises:
        ModelNotFoundError: there is no such model.
        AudioFormatError: a clip is no audio.
        OptionError: the words of a clip lie behind its end, or the device is none.
        BackendUnavailable: the device is not to be had.

    """
    place = device_of(device)
    directory = locate(model, spec=QWEN3_SIMUL, bundled=BUNDLED, cache_dir=cache_dir)
    _, vocabulary = read_beside(directory, name=model)
    loaded = load_model(directory, device=place, dtype=torch.float32)
    every = AllHeads(loaded, vocabulary)
    scores = Scores.none(every.layers, every.heads)
    for clip in clips:
        audio = _audio(clip)
        text, spans = tokens_of(clip, vocabulary)
        if text:
            scores.add(every.attend(audio, text, language=clip.language), spans)
    return scores


def tokens_of(clip: Clip, vocabulary: Vocabulary) -> tuple[list[int], list[tuple[float, float]]]:
    """Return the ids of the transcript, and for each the seconds in which its word is said."""
    text: list[int] = []
    spans: list[tuple[float, float]] = []
    for word, piece in zip(clip.words, clip.pieces, strict=True):
        ids = vocabulary.encode(piece)
        text += ids
        spans += [(word.start, word.end)] * len(ids)
    return text, spans


def _audio(clip: Clip) -> NDArray[np.float32]:
    audio = np.concatenate([np.empty(0, np.float32), *decode_file(clip.audio)])
    seconds = len(audio) / 16_000
    if clip.words and clip.words[-1].end > seconds + SLACK:
        raise OptionError(
            f"{clip.audio} is {seconds:.2f} s long, and the manifest has a word in it that ends at "
            f"{clip.words[-1].end:g} s"
        )
    return audio
