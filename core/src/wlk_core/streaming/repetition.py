"""Repetition loops: a decoder that emits the same few tokens over and over."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["Loop", "find_loop", "keep_spoken_repetitions"]

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

    A loop is an n-gram of 1 to *longest* tokens, *times* times in a row, at least two.  The first
    loop is the one that is complete first, by its shortest n-gram; so a loop that was found stays
    the first one when more tokens come.  The cost is ``len(tokens) * longest``.
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

    If the attended frame advances with each round, the speaker really repeated and all tokens
    stay.  Otherwise it is a decoding loop, and the tokens end with the first round.

    Args:
        tokens: the decoded text.
        frames: the frame that the decoder attended to most at each token; shorter than *tokens*
            where the attention is unknown.
        loop: what find_loop returned for *tokens*.

    """
    if loop is None:
        return tokens
    rounds = frames[loop.start : loop.end : loop.period]
    if len(rounds) and all(frame < later for frame, later in pairwise(rounds)):
        return tokens
    return tokens[: loop.start + loop.period]
