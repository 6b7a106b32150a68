"""
AlignAtt: a token is final unless the decoder attended to the end of the audio when it emitted it.

Papi, Turchi and Negri, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
Simultaneous Speech Translation" (Interspeech 2023); for Whisper: Wang et al., "Simul-Whisper:
Attention-Guided Streaming Whisper with Truncation Detection" (Interspeech 2024).  The test for
attention that jumps back is that of SimulStreaming (Machacek and Polak, 2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AlignAtt"]


@attrs.frozen(kw_only=True)
class AlignAtt:
    """The policy: the attended frame of each token in, the number of final tokens out."""

    border_frames: int  #: a final token attends to none of the last frames of the audio
    rewind_frames: int  #: frames that attention may jump back; a longer jump is an error

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

        The first token that attends to the last `border_frames` frames may change with the next
        audio, and so may every token after it.  The same holds for the first token that attends
        more than `rewind_frames` before the farthest final one.  With `is_last` every token is
        final, because no more audio will come.

        Args:
            frames_of_tokens: for each token after the final tokens of earlier calls, the frame that
                the decoder attended to most.  Frames count from the start of the utterance, so
                that trimming a buffer changes none.
            frames: how many frames the utterance has so far.
            last_frame: the farthest frame that a final token of an earlier call attended to.
            is_last: the utterance is complete.

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
