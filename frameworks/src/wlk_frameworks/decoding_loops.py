"""Find where a decoder repeats itself, and tell it from a speaker who does."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Loop:
    """``tokens[start:end]`` is one n-gram of `period` tokens, repeated without a break."""

    start: int
    period: int
    end: int  #: after the token that completes the loop; the repetition may go on from there


def find_loop(tokens: Sequence[Hashable], *, times: int, longest: int) -> Loop | None:
    """
    Return the first loop in *tokens*, or None.

    A loop is an n-gram of 1 to *longest* tokens that occurs *times* times in a row, at least twice.
    The first loop is the one that is complete first, with its shortest n-gram, so it stays the
    first one when more tokens follow.  The cost is ``len(tokens) * longest``.
    """
    same = [0] * (longest + 1)  # by period: how many tokens in a row equal the one a period before
    for index, token in enumerate(tokens):
        for period in range(1, min(longest, index) + 1):
            same[period] = same[period] + 1 if token == tokens[index - period] else 0
            if same[period] == period * (times - 1):
                end = index + 1
                return Loop(start=end - period * times, period=period, end=end)
    return None


def keep_spoken_repetitions(
    tokens: Sequence[T], frames: Sequence[int], loop: Loop | None
) -> Sequence[T]:
    """
    Return *tokens* without the rounds of *loop* that only the decoder repeated.

    If the attended frame advances with each round, the speaker did repeat the words, and all tokens
    stay.  Otherwise it is a decoding loop, and the tokens end with the first round.  *frames* are
    the most attended frame of each token, or of the first ones if the others are unknown.
    """
    if loop is None:
        return tokens
    rounds = frames[loop.start : loop.end : loop.period]
    if len(rounds) and all(frame < later for frame, later in pairwise(rounds)):
        return tokens
    return tokens[: loop.start + loop.period]
