"""Splitting of tokens into words: whole characters, whole words, each with its token range."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING
import unicodedata

import attrs

from wlk_core.streaming import needs_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.engine.vocabulary import Vocabulary

__all__ = ["WordSpan", "split_words"]


@attrs.frozen
class WordSpan:
    """A word with its own spacing, made of ``tokens[first:stop]``."""

    text: str
    first: int
    stop: int


def split_words(
    tokens: Sequence[int], vocabulary: Vocabulary, *, is_complete: bool
) -> tuple[WordSpan, ...]:
    """
    Return the words of *tokens* in order; their texts joined are the text.

    A word begins with a space, or with a letter of a script written without spaces.  Punctuation
    belongs to the word before it.  Bytes of an unfinished character wait for the rest of it.
    Unless the text *is_complete*, its last word is left out, because more tokens may continue it.

    The work is one vocabulary access for each token.
    """
    words: list[WordSpan] = []
    for text, first, stop in _pieces(tokens, vocabulary):
        if words and not _begins_word(words[-1].text, text):
            words[-1] = attrs.evolve(words[-1], text=words[-1].text + text, stop=stop)
        else:
            words.append(WordSpan(text, first, stop))
    if words and not is_complete:
        words.pop()
    return tuple(word for word in words if word.text.strip())


def _pieces(tokens: Sequence[int], vocabulary: Vocabulary) -> list[tuple[str, int, int]]:
    """Return whole characters as (text, first, stop): of one token, or of as many as it takes."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    pieces: list[tuple[str, int, int]] = []
    first, text = 0, ""
    for index, token in enumerate(tokens):
        text += decoder.decode(vocabulary.bytes_of(token)).replace("\ufffd", "")
        if decoder.getstate()[0]:
            continue  # the character continues in the next token
        pieces.append((text, first, index + 1))
        first, text = index + 1, ""
    return pieces


def _begins_word(previous: str, text: str) -> bool:
    """Return whether *text* begins a new word after the word *previous*."""
    if not text:
        return False
    if text[0].isspace():
        return not previous.isspace()
    if not previous.strip() or not _is_letter(text[0]):
        return False
    return _is_unspaced(text[0]) or (_is_letter(previous[-1]) and _is_unspaced(previous[-1]))


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def _is_unspaced(character: str) -> bool:
    """Return whether a letter belongs to a script without spaces between words."""
    return not needs_space("a", character)
