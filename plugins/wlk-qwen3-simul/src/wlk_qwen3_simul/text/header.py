"""What the assistant says before the text: its language."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_qwen3_simul.languages import code_of
from wlk_qwen3_simul.text.vocabulary import TEXT_START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["MOST_TOKENS", "Header", "read_header"]

MOST_TOKENS = 16  #: of a header; the longest names take five
_PREFIX = "language"


@attrs.frozen
class Header:
    """
    What came before the text.

    `tokens` is how many tokens it took, the one that begins the text included; `language` the code
    of a language that is known, None for "None" and for any other.
    """

    tokens: int
    language: str | None


def read_header(tokens: Sequence[int], vocabulary: Vocabulary) -> Header | None:
    """
    Return the header that *tokens* begin with, or None where it is not complete.

    A header that is none, such as a text without the mark that begins it, is never complete: what
    was not introduced is not a transcript.
    """
    mark = vocabulary.marks[TEXT_START]
    begun = list(tokens[:MOST_TOKENS])
    if mark not in begun:
        return None
    place = begun.index(mark)
    prefix, _, name = vocabulary.decode(begun[:place]).strip().partition(" ")
    language = code_of(name) if prefix.casefold() == _PREFIX else None
    return Header(place + 1, language)
