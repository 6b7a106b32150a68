"""Text from outside, such as file names and recognised words, without characters that act."""

from __future__ import annotations

import re

__all__ = ["ACTIVE", "plain", "printable"]

#: Characters that a terminal obeys or that break a line: controls, line and paragraph separators,
#: embeddings, overrides and isolates of writing direction, and surrogates, which are no text.
ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_SPACING = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")


def printable(text: str) -> str:
    r"""Return *text* with escapes such as ``\x1b`` in place of active characters."""
    return ACTIVE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: str) -> str:
    """Return *text* as `printable` does, with a space in place of each tab and line break."""
    return printable(_SPACING.sub(" ", text))
