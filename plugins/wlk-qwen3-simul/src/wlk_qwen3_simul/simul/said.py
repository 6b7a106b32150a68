"""What each position of the decoder gave, and tokens as they were said: one record each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_qwen3_simul.audio.frames import token_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.simul.network import Looked

__all__ = ["HEED", "Row", "Said", "rows_of", "said_of"]

HEED = 0.02  # share of their attention below which the heads were not looking at the audio


@attrs.frozen
class Row:
    """
    What one position of the decoder gave.

    Attributes:
        chosen: the likeliest token behind it.
        log_prob: how likely that is.
        frame: where in the audio it looked, in frames of 40 ms; None where it heeded no audio.

    """

    chosen: int
    log_prob: float
    frame: int | None


@attrs.frozen
class Said:
    """
    A token of the text.

    Attributes:
        id: of the token.
        frame: where it was heard, in frames of 40 ms from the start of the audio.
        log_prob: how likely it was.

    """

    id: int
    frame: int
    log_prob: float


def rows_of(looked: Looked) -> list[Row]:
    """
    Return the rows of one pass.

    Raises:
        FloatingPointError: the arithmetic of the model overflowed.

    """
    if not np.isfinite(looked.log_probs).all():
        raise FloatingPointError(
            "the decoder gave logits that are no numbers: its arithmetic overflowed; load the "
            "model in float32 or bfloat16"
        )
    return [
        Row(
            int(chosen),
            float(likely),
            token_frame(int(attention.argmax())) if heed >= HEED else None,
        )
        for chosen, likely, attention, heed in zip(
            looked.ids, looked.log_probs, looked.attention, looked.heed, strict=True
        )
    ]


def said_of(ids: Sequence[int], rows: Sequence[Row], *, by_self: bool) -> tuple[Said, ...]:
    """
    Return the record of every token of *ids*; records are never parallel lists (defect B22).

    Row i is that behind which token i was chosen, and the last one that of the last token itself.
    Which of its two rows looks at a token's audio is a property of the heads: the one behind which
    it was chosen, or *by_self* the one it was fed at.  A row that heeded no audio leaves the
    token where the one before it was heard.
    """
    said: list[Said] = []
    frame = 0
    for place, token in enumerate(ids):
        seen = rows[place + by_self].frame
        frame = frame if seen is None else seen
        said.append(Said(token, frame, rows[place].log_prob))
    return tuple(said)
