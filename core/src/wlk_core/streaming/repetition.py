"""Repetition loops: a decoder that says the same few tokens over and over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["Loop", "find_loop"]


@attrs.frozen(kw_only=True)
class Loop:
    """``tokens[start:end]`` is one n-gram of `period` tokens, said again and again."""

    start: int
    period: int
    end: int  #: behind the token that makes it a loop; it may go on from there


def find_loop(tokens: Sequence[Hashable], *, times: int, longest: int) -> Loop | None:
    """
    Return the first loop in *tokens*, or None where there is none.

    A loop is an n-gram of 1 to *longest* tokens, said *times* times in a row; the first one is that
    which is complete first, by its shortest n-gram.  So a loop that was found stays where it is
    when more tokens come.  Work is ``len(tokens) * longest``.

    Raises:
        ValueError: *times* is below 2 (everything would be a loop) or *longest* below 1.

    """
    if times < 2 or longest < 1:  # noqa: PLR2004 -- once is no repetition
        raise ValueError(
            f"expected at least 2 times and 1 token, got times={times}, longest={longest}"
        )
    same = [0] * (longest + 1)  # by period: how many tokens in a row equal the one a period before
    for place, token in enumerate(tokens):
        for period in range(1, min(longest, place) + 1):
            same[period] = same[period] + 1 if token == tokens[place - period] else 0
            if same[period] == period * (times - 1):
                end = place + 1
                return Loop(start=end - period * times, period=period, end=end)
    return None
