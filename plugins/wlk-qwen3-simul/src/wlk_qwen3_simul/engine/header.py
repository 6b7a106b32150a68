"""The header that the decoder emits before the text: the language of the speech."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_qwen3_simul.engine.vocabulary import TEXT_START
from wlk_qwen3_simul.languages import code_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.engine.vocabulary import Vocabulary

__all__ = ["MAX_HEADER_TOKENS", "Header", "read_header"]

MAX_HEADER_TOKENS = 16  # the longest language names take five
_PREFIX = "language"


@attrs.frozen
class Header:
    """
    The header of a text.

    `tokens` counts its tokens, `<asr_text>` included.  `language` is the code of the detected
    language, None for "None" and for names that are not in LANGUAGES.
    """

    tokens: int
    language: str | None


def read_header(tokens: Sequence[int], vocabulary: Vocabulary) -> Header | None:
    """
    Return the header that *tokens* begin with, or None where it is not complete.

    Output without `<asr_text>` never has a header, and is not treated as a transcript.
    """
    text_start = vocabulary.special_ids[TEXT_START]
    first = list(tokens[:MAX_HEADER_TOKENS])
    if text_start not in first:
        return None
    index = first.index(text_start)
    prefix, _, name = vocabulary.decode(first[:index]).strip().partition(" ")
    language = code_of(name) if prefix.casefold() == _PREFIX else None
    return Header(index + 1, language)
