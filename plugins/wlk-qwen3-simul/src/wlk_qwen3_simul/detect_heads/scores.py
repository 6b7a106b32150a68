"""Score decoder heads, corrected for chance, and choose the alignment heads among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import OptionError
from wlk_qwen3_simul.engine.alignment_heads import (
    DETECT_COMMAND,
    ROWS,
    AlignmentHead,
    AlignmentHeads,
)
from wlk_qwen3_simul.engine.frames import FRAME_SECONDS, frame_of_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_qwen3_simul.engine.alignment_heads import Row

TOLERANCE = 0.1  # seconds around a word that still count as a hit: an audio token is 0.08 s long
MIN_BEST_SCORE = 0.2  # if the best score is lower, words cannot be committed by attention
MAX_HEADS = 20  # as many as in the published lists
MIN_SHARE = 0.8  # lowest score of a chosen head, as a share of the best score


@attrs.define(eq=False)
class Scores:
    """
    The hits of every head under each convention, summed over clips.

    Attributes:
        hits: int64[layers, heads] by row; see Row.
        expected: the mean number of hits of a head that attends to random audio.
        tokens: the number of tokens scored.

    """

    hits: dict[Row, NDArray[np.int64]]
    expected: float = 0.0
    tokens: int = 0

    @classmethod
    def zero(cls, layers: int, heads: int) -> Scores:
        """Return the scores before the first clip."""
        return cls({row: np.zeros((layers, heads), np.int64) for row in ROWS})

    def add(self, attention: NDArray[np.float32], spans: Sequence[tuple[float, float]]) -> None:
        """
        Add the hits of one clip.

        Args:
            attention: float32[layers, heads, tokens + 1, audio]: row i predicts text token i, which
                is the input of row i + 1.
            spans: start and end of the word of each token, in seconds from the start of the audio.

        """
        peaks = attention.argmax(axis=-1)
        middles = token_seconds(attention.shape[-1]).mean(axis=1)
        bounds = np.array(spans).reshape(-1, 2)
        starts, ends = bounds[:, :1], bounds[:, 1:]
        is_hit = (middles >= starts - TOLERANCE) & (middles <= ends + TOLERANCE)
        number = np.arange(len(is_hit))
        self.hits["predict"] += np.count_nonzero(is_hit[number, peaks[:, :, :-1]], axis=-1)
        self.hits["self"] += np.count_nonzero(is_hit[number, peaks[:, :, 1:]], axis=-1)
        self.expected += float(is_hit.mean(axis=-1).sum())
        self.tokens += len(is_hit)

    @property
    def chance(self) -> float:
        """Expected share of hits of a head that attends to random audio."""
        return self.expected / max(self.tokens, 1)

    def corrected(self, row: Row) -> NDArray[np.float64]:
        """Return float64[layers, heads]: 0 for chance, 1 for every token (Cohen's kappa)."""
        share = self.hits[row] / max(self.tokens, 1)
        return (share - self.chance) / max(1 - self.chance, 1e-9)


def token_seconds(count: int) -> NDArray[np.float64]:
    """Return float64[count, 2]: the start and end of each audio token, in seconds."""
    starts = np.array([frame_of_token(token) for token in range(count + 1)]) * FRAME_SECONDS
    return np.stack([starts[:-1], starts[1:]], axis=1)


def choose(scores: Scores, model: str, *, clips: int) -> AlignmentHeads:
    """
    Return the heads of the better convention that score close to the best one, best first.

    Raises:
        OptionError: every head scores close to chance.

    """
    row = max(ROWS, key=lambda row: scores.corrected(row).max())
    corrected = scores.corrected(row)
    layers, heads = corrected.shape
    best = corrected.max()
    if not best >= MIN_BEST_SCORE:
        raise OptionError(
            f"no head of {model} attends to the spoken word: the best score is {best:g}, where "
            f"chance is 0 and {MIN_BEST_SCORE:g} is enough; check the word times of the manifest"
        )
    order = np.argsort(-corrected, axis=None, kind="stable")[:MAX_HEADS]
    pairs = [divmod(int(index), heads) for index in order]
    return AlignmentHeads(
        model=model,
        layers=layers,
        heads=heads,
        row=row,
        best=tuple(
            AlignmentHead(layer=layer, head=head, score=round(float(corrected[layer, head]), 4))
            for layer, head in pairs
            if corrected[layer, head] >= MIN_SHARE * best
        ),
        chance=round(scores.chance, 4),
        source=f"{DETECT_COMMAND}: {scores.tokens} tokens of {clips} clips, teacher-forced; share "
        "of them whose attention peaks in the word, corrected for chance",
    )
