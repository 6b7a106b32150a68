"""From tokens to words: whole characters, whole words, each with the tokens it is made of."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING
import unicodedata

import attrs

from wlk_core.streaming import needs_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["Spelt", "spell"]


@attrs.frozen
class Spelt:
    """A word with its own spacing, made of ``tokens[first:behind]``."""

    text: str
    first: int
    behind: int


def spell(tokens: Sequence[int], vocabulary: Vocabulary, *, is_complete: bool) -> tuple[Spelt, ...]:
    """
    Return the words of *tokens* in order; their texts joined are the text.

    A word begins with a space, or with a letter of a script that is written without any.  What is
    punctuation goes with the word before it.  Bytes of an unfinished character wait for the rest,
    and a word at the end may go on: unless the text *is_complete*, they are left out.

    Work is one look-up a token.
    """
    words: list[Spelt] = []
    for text, first, behind in _pieces(tokens, vocabulary):
        if words and not _begins_word(words[-1].text, text):
            words[-1] = attrs.evolve(words[-1], text=words[-1].text + text, behind=behind)
        else:
            words.append(Spelt(text, first, behind))
    if words and not is_complete:
        words.pop()
    return tuple(word for word in words if word.text.strip())


def _pieces(tokens: Sequence[int], vocabulary: Vocabulary) -> list[tuple[str, int, int]]:
    """Return whole characters as (text, first, behind): a token, or as many as it takes."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    pieces: list[tuple[str, int, int]] = []
    first, held = 0, ""
    for place, token in enumerate(tokens):
        held += decoder.decode(vocabulary.bytes_of(token)).replace("\ufffd", "")
        if decoder.getstate()[0]:
            continue  # a character goes on in the next token
        pieces.append((held, first, place + 1))
        first, held = place + 1, ""
    return pieces


def _begins_word(before: str, text: str) -> bool:
    """Tell whether *text* is the beginning of a word behind the word *before*."""
    if not text:
        return False
    if text[0].isspace():
        return not before.isspace()
    if not before.strip() or not _is_letter(text[0]):
        return False
    return _is_unspaced(text[0]) or (_is_letter(before[-1]) and _is_unspaced(before[-1]))


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def _is_unspaced(character: str) -> bool:
    """Tell whether a letter is of a script that puts no spaces between words."""
    return not needs_space("a", character)
