"""The cross-attention of the scripted engine: words in pieces, aligned with jitter."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from wlk_conformance.scripted.tokenizer import decode_pieces, split_word
from wlk_core.online import AlignedWord
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import AlignAtt, Word

if TYPE_CHECKING:
    from wlk_conformance.testing.coded_audio import DetectedToken

__all__ = ["BUFFER_SECONDS", "FRAME_SAMPLES", "POLICY", "aligned_word", "jitter"]

FRAME_SAMPLES = 320  # 20 ms, the stride of a Whisper encoder
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE
POLICY = AlignAtt(border_frames=8, rewind_frames=25)  # 0.16 s, 0.5 s
BUFFER_SECONDS = 8.0  # of audio kept while committed words can be released


def aligned_word(
    token: DetectedToken, text: str, *, first_sample: int, samples: int, seed: int = 0
) -> AlignedWord:
    """
    Return *text* aligned with *token*, a piece of it in every frame from the first to the last.

    Frames jitter as attention does, drawn from *seed*, and lie within the *samples* samples of the
    buffer, which begins at sample *first_sample* of the utterance.
    """
    pieces = split_word(text)
    last_frame = max(0, -(-samples // FRAME_SAMPLES) - 1)
    frames: list[int] = []
    for sample in np.linspace(token.start, token.end - 1, len(pieces)).astype(int).tolist():
        frame = sample // FRAME_SAMPLES + jitter(token.id, first_sample + sample, seed=seed)
        frames.append(min(max(0, frame), last_frame))
    word = Word(
        min(frames) * FRAME_SECONDS,
        (max(frames) + 1) * FRAME_SECONDS,
        decode_pieces(piece.data for piece in pieces),
        1.0,
    )
    return AlignedWord(word=word, frames=tuple(frames))


def jitter(token: int, sample: int, *, seed: int = 0) -> int:
    """Return -1, 0 or 1 frames, drawn from *seed*, the token id and its sample in the utterance."""
    drawn = blake2b(f"{seed}:{token}:{sample}".encode(), digest_size=2).digest()
    return int.from_bytes(drawn) % 3 - 1
