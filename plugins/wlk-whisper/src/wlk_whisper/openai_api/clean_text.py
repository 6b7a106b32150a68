"""Text from an endpoint without the characters that a terminal or a file would obey."""

from __future__ import annotations

import re

__all__ = ["clean"]

SPACES = re.compile(r"\s+")
# Control characters, halves of a surrogate pair, and what stands for an incomplete character.
INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")


def clean(text: str) -> str:
    r"""
    Return *text* with one space for each run of white space, and without control characters.

    >>> clean("one\n\x1b[31m two\x00")
    'one [31m two'
    """
    # Again at the end, because a control character may have stood between two spaces.
    return SPACES.sub(" ", INVISIBLE.sub("", SPACES.sub(" ", text)))
