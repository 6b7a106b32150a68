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

__all__ = ["AlignAtt"]


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
        frames_of_tokens: Sequence[int],
        *,
        frames: int,
        last_frame: int = 0,
        is_last: bool = False,
    ) -> int:
        """
        Return how many tokens, from the first one on, are final.

        The first token that attends to the last `border_frames` frames may change with the audio
        to come, and so may everything behind it.  Nor is a token final, or anything behind it,
        that attends more than `rewind_frames` before the farthest final one.  With `is_last` there
        is no more audio to wait for, and everything is final.

        Args:
            frames_of_tokens: for each token after the final tokens of earlier calls, the frame that
                the decoder attended to most.
            frames: how many frames of the run there are.
            last_frame: the farthest frame that a final token of an earlier call attended to.
            is_last: the run is complete.

        """
        if is_last:
            return len(frames_of_tokens)
        farthest = last_frame
        for count, frame in enumerate(frames_of_tokens):
            if frame >= frames - self.border_frames:
                return count
            if frame < farthest - self.rewind_frames:
                return count
            farthest = max(farthest, frame)
        return len(frames_of_tokens)
