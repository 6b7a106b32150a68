"""One record for each decoder position, and one for each token with its time in the audio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_qwen3_simul.engine.frames import frame_of_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.engine.network import DecoderOutput

__all__ = [
    "MIN_AUDIO_ATTENTION",
    "AlignedToken",
    "DecoderStep",
    "align_tokens",
    "steps_from_output",
]

MIN_AUDIO_ATTENTION = 0.02  # share of the heads' attention below which the step has no frame


@attrs.frozen
class DecoderStep:
    """
    The decoder's output at one position.

    Attributes:
        token: the likeliest next token.
        logprob: the logprob of that token.
        frame: the alignment frame of the audio attended to most; None where less than
            MIN_AUDIO_ATTENTION of the attention went to the audio.

    """

    token: int
    logprob: float
    frame: int | None


@attrs.frozen
class AlignedToken:
    """
    A token of the text.

    Attributes:
        id: the token.
        frame: the alignment frame it is spoken at, from the start of the audio.
        logprob: its logprob.

    """

    id: int
    frame: int
    logprob: float


def steps_from_output(output: DecoderOutput, *, first_token: int = 0) -> list[DecoderStep]:
    """
    Return the steps of one forward over the audio tokens from number *first_token* on.

    Raises:
        FloatingPointError: the arithmetic of the model overflowed.

    """
    if not np.isfinite(output.logprobs).all():
        raise FloatingPointError(
            "the decoder emitted logits that are not finite: its arithmetic overflowed; load the "
            "model in float32 or bfloat16"
        )
    return [
        DecoderStep(
            int(token),
            float(logprob),
            frame_of_token(first_token + int(attention.argmax()))
            if mass >= MIN_AUDIO_ATTENTION
            else None,
        )
        for token, logprob, attention, mass in zip(
            output.ids, output.logprobs, output.attention, output.audio_attention_mass, strict=True
        )
    ]


def align_tokens(
    ids: Sequence[int], steps: Sequence[DecoderStep], *, by_self: bool
) -> tuple[AlignedToken, ...]:
    """
    Return every token of *ids* with its frame and logprob, in one record each.

    `steps[i]` predicted `ids[i]`, and `steps[-1]` is the step whose input was the last token.  The
    frame comes from the step that predicted the token or, with *by_self*, from the step that the
    token was fed at.  A step without a frame takes the frame of the token before.
    """
    aligned: list[AlignedToken] = []
    frame = 0
    for index, token in enumerate(ids):
        own = steps[index + by_self].frame
        frame = frame if own is None else own
        aligned.append(AlignedToken(token, frame, steps[index].logprob))
    return tuple(aligned)
