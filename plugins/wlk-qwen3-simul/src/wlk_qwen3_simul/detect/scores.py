"""How often each head looks at the word that is being said, and how often it would by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_qwen3_simul.alignment_heads import AlignmentHead
from wlk_qwen3_simul.audio.frames import FRAME_SAMPLES, RATE, token_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_qwen3_simul.alignment_heads import Row

__all__ = ["Scores", "best_heads", "hits", "token_seconds"]

TOLERANCE = 0.1  # seconds beside a word that still count as in it: an audio token is 0.08 s long

_ROWS: tuple[Row, ...] = ("predict", "self")


@attrs.define(eq=False)
class Scores:
    """
    Hits of every head under either convention, added up over clips.

    Attributes:
        hits: int64[layers, heads] by row; see Row.
        expected: how many hits looking anywhere would have had, as a mean.
        tokens: how many tokens were looked for.

    """

    hits: dict[Row, NDArray[np.int64]]
    expected: float = 0.0
    tokens: int = 0

    @classmethod
    def none(cls, layers: int, heads: int) -> Scores:
        """Return the scores before the first clip."""
        return cls({row: np.zeros((layers, heads), np.int64) for row in _ROWS})

    def add(self, attention: NDArray[np.float32], spans: Sequence[tuple[float, float]]) -> None:
        """
        Count a clip.

        Args:
            attention: float32[layers, heads, tokens + 1, audio]: row i predicts text token i, and
                row i + 1 is the one that it is fed at.
            spans: seconds from the start of the audio, where the word of each text token is said.

        """
        peaks = attention.argmax(axis=-1)
        times = token_seconds(attention.shape[-1])
        wanted = np.array([hits(times, span) for span in spans], dtype=np.bool_)
        wanted = wanted.reshape(-1, len(times))
        number = np.arange(len(wanted))
        self.hits["predict"] += np.count_nonzero(wanted[number, peaks[:, :, :-1]], axis=-1)
        self.hits["self"] += np.count_nonzero(wanted[number, peaks[:, :, 1:]], axis=-1)
        self.expected += float(wanted.mean(axis=-1).sum())
        self.tokens += len(wanted)

    @property
    def chance(self) -> float:
        """Share of the tokens that a head would hit which looks anywhere."""
        return self.expected / max(self.tokens, 1)

    def corrected(self, row: Row) -> NDArray[np.float64]:
        """Return float64[layers, heads]: 0 for chance, 1 for every token (Cohen's kappa)."""
        share = self.hits[row] / max(self.tokens, 1)
        return (share - self.chance) / max(1 - self.chance, 1e-9)


def token_seconds(count: int) -> NDArray[np.float64]:
    """Return float64[count, 2]: when the audio of each audio token begins and ends."""
    starts = np.array([token_frame(token) for token in range(count + 1)]) * FRAME_SAMPLES / RATE
    return np.stack([starts[:-1], starts[1:]], axis=1)


def hits(times: NDArray[np.float64], span: tuple[float, float]) -> NDArray[np.bool_]:
    """Return bool[audio]: whether looking there is looking at a word of that span, in seconds."""
    middles = times.mean(axis=1)
    start, end = span
    near: NDArray[np.bool_] = (middles >= start - TOLERANCE) & (middles <= end + TOLERANCE)
    return near


def best_heads(scores: Scores, *, most: int, least: float) -> tuple[Row, tuple[AlignmentHead, ...]]:
    """
    Return the better convention and its heads, the best first.

    Args:
        scores: of all heads.
        most: how many heads to return at most.
        least: share of the best head's score below which none is returned.

    """
    found: list[tuple[float, Row, tuple[AlignmentHead, ...]]] = []
    for row in _ROWS:
        corrected = scores.corrected(row)
        order = np.argsort(-corrected, axis=None, kind="stable")[:most]
        places = [divmod(int(place), corrected.shape[1]) for place in order]
        limit = least * corrected.max()
        heads = tuple(
            AlignmentHead(layer=layer, head=head, score=round(float(corrected[layer, head]), 4))
            for layer, head in places
            if corrected[layer, head] >= limit
        )
        found.append((float(corrected.max()), row, heads))
    _, row, heads = max(found, key=lambda one: one[0])
    return row, heads
