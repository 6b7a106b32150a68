"""What AlignAtt needs of a scripted engine: words in pieces, and attention that jitters."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.online import AlignedWord
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import AlignAtt, Word
from wlk_core.testing.scripted_pieces import spell, text_of

if TYPE_CHECKING:
    from wlk_core.testing.coded_audio import DetectedToken

__all__ = ["BUFFER_SECONDS", "FRAME_SAMPLES", "POLICY", "attended_word", "jitter"]

FRAME_SAMPLES = 320  # 20 ms, the stride of a Whisper encoder
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE
POLICY = AlignAtt(border_frames=8, rewind_frames=25)  # 0.16 s, 0.5 s
BUFFER_SECONDS = 8.0  # of audio kept while committed words can be let go of


def attended_word(
    token: DetectedToken, text: str, *, first_sample: int, samples: int
) -> AlignedWord:
    """
    Return *text* as heard in *token*, a piece of it in every frame from the first to the last.

    Frames jitter as attention does, and lie within the *samples* of audio that were given, which
    begin at sample *first_sample* of the run.
    """
    pieces = spell(text)
    last = max(0, -(-samples // FRAME_SAMPLES) - 1)
    frames: list[int] = []
    for place in np.linspace(token.start, token.end - 1, len(pieces)).astype(int).tolist():
        frame = place // FRAME_SAMPLES + jitter(token.id, first_sample + place)
        frames.append(min(max(0, frame), last))
    word = Word(
        min(frames) * FRAME_SECONDS,
        (max(frames) + 1) * FRAME_SECONDS,
        text_of(piece.data for piece in pieces),
        1.0,
    )
    return AlignedWord(word=word, frames=tuple(frames))


def jitter(token: int, sample: int, *, seed: int = 0) -> int:
    """Return -1, 0 or 1 frames, drawn from *seed*, the token and where in the run it was said."""
    drawn = blake2b(f"{seed}:{token}:{sample}".encode(), digest_size=2).digest()
    return int.from_bytes(drawn) % 3 - 1
