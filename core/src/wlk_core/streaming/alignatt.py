"""
AlignAtt: a token is final when the audio it attends to does not lie at the end of what is there.

Papi, Turchi and Negri, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
Simultaneous Speech Translation" (Interspeech 2023); for Whisper: Wang et al., "Simul-Whisper:
Attention-Guided Streaming Whisper with Truncation Detection" (Interspeech 2024), and SimulStreaming
(Machacek and Polak, 2025), from which the test for attention that jumps back is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AlignAtt", "AlignedToken", "frames_in_order"]


@attrs.frozen
class AlignedToken:
    """
    A token and the encoder frame that the decoder attended to most when it emitted the token.

    `frame` counts from the start of the run, never from the start of the buffer: a buffer that is
    trimmed changes no frame (defect B02).  `probability` is in [0, 1] or None.
    """

    text: str
    frame: int
    probability: float | None = None


@attrs.frozen(kw_only=True)
class AlignAtt:
    """
    The policy: pure, tokens and frames in, a number of final tokens out.

    Raises:
        ValueError: a number of frames is negative.

    """

    border_frames: int  #: frames at the end of the audio that no final token attends to
    rewind_frames: int  #: attention may jump back this far; farther, and it has gone astray

    def __attrs_post_init__(self) -> None:
        if self.border_frames < 0 or self.rewind_frames < 0:
            raise ValueError(f"expected 0 frames or more, got {self}")

    def count_final(
        self,
        tokens: Sequence[AlignedToken],
        *,
        frames: int,
        last_frame: int = 0,
        is_last: bool = False,
    ) -> int:
        """
        Return how many of *tokens*, from the first one on, are final.

        The first token that attends to the last `border_frames` frames may change with the audio
        to come, and so may everything behind it.  Nor is a token final, or anything behind it,
        that attends more than `rewind_frames` before the farthest final one.  With `is_last` there
        is no more audio to wait for, and everything is final.

        Args:
            tokens: what the decoder said behind the final tokens of earlier calls.
            frames: how many frames of the run there are.
            last_frame: the farthest frame that a final token of an earlier call attended to.
            is_last: the run is complete.

        """
        if is_last:
            return len(tokens)
        farthest = last_frame
        for count, token in enumerate(tokens):
            if token.frame >= frames - self.border_frames:
                return count
            if token.frame < farthest - self.rewind_frames:
                return count
            farthest = max(farthest, token.frame)
        return len(tokens)


def frames_in_order(
    tokens: Sequence[AlignedToken], *, first: int, frames: int
) -> tuple[AlignedToken, ...]:
    """
    Return *tokens* with frames that never go back, from *first* on and inside the audio.

    The peak of an attention jitters, time does not (defect B23).  Frames lie in 0 to ``frames -
    1``; where *first* lies behind the audio, the last frame is taken.
    """
    ordered: list[AlignedToken] = []
    last = max(0, frames - 1)
    floor = min(first, last)
    for token in tokens:
        floor = min(max(floor, token.frame), last)
        ordered.append(attrs.evolve(token, frame=floor))
    return tuple(ordered)
