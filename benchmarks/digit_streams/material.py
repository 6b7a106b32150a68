"""Streams of connected digits with known words, the same for every backend."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.reference import Reference, ReferenceWord
from wlk_conformance.testing import connected_digits
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_conformance.testing import Clip

__all__ = ["Material", "stream_of"]

_WORDS = 6  # of an utterance: about four seconds


@attrs.frozen(eq=False)
class Material:
    """Speech and its reference: float32[n] at 16 kHz, words with times from its start."""

    audio: NDArray[np.float32]
    reference: Reference

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.audio) / SAMPLE_RATE


def stream_of(seconds: float) -> Material:
    """
    Return whole utterances of several voices, as many as fit, and silence up to *seconds*.

    Pauses within an utterance are up to 0.6 s long, and a second lies between two of them.
    """
    audio = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
    words: list[ReferenceWord] = []
    first = 0
    for clip in _utterances():
        stop = first + len(clip.audio)
        if stop > len(audio):
            break
        audio[first:stop] = clip.audio
        shift = first / SAMPLE_RATE
        words += [
            ReferenceWord(word.text.strip(), word.start + shift, word.end + shift)
            for word in clip.words
        ]
        first = stop
    return Material(audio, Reference(text=" ".join(word.text for word in words), words=words))


def _utterances() -> Iterator[Clip]:
    for seed in count():
        yield connected_digits(_WORDS, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8)
