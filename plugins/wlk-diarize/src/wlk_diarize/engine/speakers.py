"""Assign speech to speakers by online clustering of its embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_HALF_SECONDS = 0.5  # of speech, whose embedding is half noise and half speaker; see Speakers
_NEW_SECONDS = 1.0  # of speech to begin a new speaker: shorter embeddings are far from any speaker
# Similarity below which speech is from a new speaker.  Among 40 voices, the same voice mostly had
# 0.85 to 1.1, different ones 0.35 to 0.75; in noise at 15 dB the same voice had as little as 0.6.
_NEW_BELOW = 0.75
_SURE_FROM = 0.8  # similarity from which speech updates the mean of its speaker
_LINK = 0.1  # similarity that full evidence of the segmentation adds
_WEIGHT_SECONDS = 60.0  # of speech after which a speaker's mean adapts only slowly


@attrs.frozen(eq=False)
class Voice:
    """An enrolled speaker's name, and the embedding of *seconds* of their speech."""

    name: str
    embedding: NDArray[np.float32]  #: float32[d] of length 1
    seconds: float


class Speakers:
    """
    Number speakers in order of appearance; a number always stands for the same speaker.

    CAM++'s embeddings of two stretches of d seconds from the same speaker have a cosine of about
    d / (d + 0.5) (measured: 0.60 at 0.75 s, 0.66 at 1 s, 0.74 at 1.5 s, 0.80 at 2 s, 0.86 at 3 s).
    So each has a cosine of the square root of that to the speaker's true direction, and a cosine
    divided by both roots estimates how similar two *speakers* are: 1 for the same speaker, whatever
    the lengths.  One threshold then works for short and long turns.

    Args:
        max_speakers: how many speakers to distinguish; speech of any other goes to the nearest.
        voices: enrolled speakers, who have the first numbers.

    """

    def __init__(self, max_speakers: int, voices: Sequence[Voice] = ()) -> None:
        self._max_speakers = max_speakers
        self._enrolled = len(voices)
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

        `links` is the evidence of the segmentation for each speaker so far, from -1 (a different
        speaker in this window) through 0 (absent from this window) to 1 (the same speaker).
        """
        similarity = self._similarity(embedding, seconds)
        scores = similarity + _LINK * links
        # An enrolled speaker must be similar enough: being the nearest does not suffice.
        dissimilar = np.flatnonzero(scores[: self._enrolled] < _NEW_BELOW)
        scores[dissimilar] -= 10.0
        best = int(scores.argmax()) if len(self) else -1
        is_first = len(dissimilar) == len(self)
        is_new = is_first or (
            scores[best] < _NEW_BELOW and seconds >= _NEW_SECONDS and len(self) < self._max_speakers
        )
        if is_new:
            self._sums.append(np.zeros(len(embedding)))
            self._seconds.append(0.0)
            best = len(self) - 1
        if is_new or similarity[best] >= _SURE_FROM:
            total = self._seconds[best] + seconds
            self._sums[best] += seconds * embedding
            if total > _WEIGHT_SECONDS:
                self._sums[best] *= _WEIGHT_SECONDS / total
            self._seconds[best] = min(total, _WEIGHT_SECONDS)
        return best

    def _similarity(self, embedding: NDArray[np.float32], seconds: float) -> Floats:
        if not self._sums:
            return np.zeros(0)
        sums, known_seconds = np.array(self._sums), np.array(self._seconds)
        cosines = sums @ embedding / np.maximum(np.linalg.norm(sums, axis=1), 1e-9)
        expected = known_seconds / (known_seconds + _HALF_SECONDS)
        expected = expected * seconds / (seconds + _HALF_SECONDS)
        similarity: Floats = cosines / np.sqrt(expected)
        return similarity
