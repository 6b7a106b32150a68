"""The speakers heard so far: online clustering of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_HALF_SECONDS = 0.5  # of speech, whose embedding is as much chance as speaker; see Speakers
_NEW_SECONDS = 1.0  # of speech that a new speaker takes: embeddings of less are too far from any
# Likeness below which speech is a new speaker's.  Of 40 voices, the same one mostly had 0.85 to 1.1
# and two different ones 0.35 to 0.75; in noise at 15 dB the same one had as little as 0.6.
_NEW_BELOW = 0.75
_SURE_FROM = 0.8  # likeness from which speech moves the mean of its speaker
_LINK = 0.1  # how much likeness the segmentation's opinion is worth
_WEIGHT_SECONDS = 60.0  # of speech after which a speaker's mean only follows slowly


@attrs.frozen(eq=False)
class Voice:
    """A speaker who is known by name, and the embedding of *seconds* of their speech."""

    name: str
    embedding: NDArray[np.float32]  #: float32[d] of length 1
    seconds: float


class Speakers:
    """
    Numbers speakers in the order in which they are first heard; a number never changes its voice.

    The embedding of d seconds of CAM++ has a cosine of about d / (d + 0.5) to that of other d
    seconds of the same speaker (measured: 0.60 at 0.75 s, 0.66 at 1 s, 0.74 at 1.5 s, 0.80 at 2 s,
    0.86 at 3 s).  So it has the square root of that to the speaker's true direction, and a cosine
    divided by both roots estimates how alike two *speakers* are: 1 for the same one, whatever the
    lengths.  One threshold then serves short and long turns.

    Args:
        most: how many speakers are told apart; speech of a further one goes to the nearest.
        voices: the first of them, who are known before they speak.

    """

    def __init__(self, most: int, voices: Sequence[Voice] = ()) -> None:
        self._most = most
        self._known = len(voices)
        self._seconds = [min(voice.seconds, _WEIGHT_SECONDS) for voice in voices]
        embeddings = [voice.embedding.astype(np.float64) for voice in voices]
        self._sums: list[Floats] = [
            seconds * embedding
            for seconds, embedding in zip(self._seconds, embeddings, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._sums)

    def assign(self, embedding: NDArray[np.float32], seconds: float, links: Floats) -> int:
        """
        Return the speaker of an embedding of *seconds* of speech.

        `links` is the segmentation's opinion on each speaker so far, from -1 (another one within
        this window) over 0 (not in this window) to 1 (the same one).
        """
        likeness = self._likeness(embedding, seconds)
        scores = likeness + _LINK * links
        # Nobody who is known by name is taken for the nearest of those who were heard.
        unlike = np.flatnonzero(scores[: self._known] < _NEW_BELOW)
        scores[unlike] -= 10.0
        best = int(scores.argmax()) if len(self) else -1
        is_first = len(unlike) == len(self)
        is_new = is_first or (
            scores[best] < _NEW_BELOW and seconds >= _NEW_SECONDS and len(self) < self._most
        )
        if is_new:
            self._sums.append(np.zeros(len(embedding)))
            self._seconds.append(0.0)
            best = len(self) - 1
        if is_new or likeness[best] >= _SURE_FROM:
            total = self._seconds[best] + seconds
            self._sums[best] += seconds * embedding
            if total > _WEIGHT_SECONDS:
                self._sums[best] *= _WEIGHT_SECONDS / total
            self._seconds[best] = min(total, _WEIGHT_SECONDS)
        return best

    def _likeness(self, embedding: NDArray[np.float32], seconds: float) -> Floats:
        if not self._sums:
            return np.zeros(0)
        sums, known = np.array(self._sums), np.array(self._seconds)
        cosines = sums @ embedding / np.maximum(np.linalg.norm(sums, axis=1), 1e-9)
        shares = known / (known + _HALF_SECONDS) * seconds / (seconds + _HALF_SECONDS)
        likeness: Floats = cosines / np.sqrt(shares)
        return likeness
