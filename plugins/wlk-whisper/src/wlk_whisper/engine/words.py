"""Words with times from tokens and their boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import Word
from wlk_core.streaming import is_unspaced
from wlk_whisper.engine.timing import ENCODER_FRAME_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_whisper.engine.tokenizer import Tokenizer

__all__ = ["APPENDED", "INCOMPLETE_CHARACTER", "PREPENDED", "WordSpan", "words_from_tokens"]

# Punctuation that belongs to the next word, and to the previous; faster_whisper/transcribe.py.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 -- the punctuation of Whisper's languages
INCOMPLETE_CHARACTER = "\ufffd"


@attrs.frozen
class WordSpan:
    """A word and the tokens it consists of: ``tokens[first:stop]``."""

    word: Word
    first: int
    stop: int


def words_from_tokens(
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    boundaries: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    *,
    lag_seconds: float = 0.0,
) -> tuple[WordSpan, ...]:
    """
    Return the words of *tokens*, in seconds from the start of the audio.

    Punctuation is joined to its word and changes neither the word's times nor its probability,
    which is the mean of its tokens'.  What follows a word without a space belongs to it ("1,000",
    "forty-two"), except in scripts without spaces.  Words end before the bytes of an incomplete
    character.

    Args:
        tokenizer: splits tokens into words by the rules of its language.
        tokens: text tokens, without timestamps and the end of text.
        boundaries: int64[tokens + 1], the encoder frame where each token begins, and the end.
        probabilities: float64[tokens].
        lag_seconds: how much later than the sound the boundaries are; see AlignmentHeads.

    """
    if not tokens:
        return ()
    times = boundaries * ENCODER_FRAME_SECONDS
    times = np.clip(times - lag_seconds, 0.0, times[-1])
    texts, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    spans: list[WordSpan] = []
    first = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        if INCOMPLETE_CHARACTER in text:
            break
        stop = first + len(group)
        start, end = times[first], times[stop]
        probability = min(1.0, max(0.0, float(probabilities[first:stop].mean())))
        spans.append(WordSpan(Word(float(start), float(end), text, probability), first, stop))
        first = stop
    return tuple(span for span in _merge_punctuation(spans) if span.word.text.strip())


def _merge_punctuation(spans: list[WordSpan]) -> list[WordSpan]:
    """Return *spans* with opening marks joined to the next word, pieces to the previous one."""
    opened: list[WordSpan] = []
    for span in reversed(spans):
        text = span.word.text
        if opened and text.startswith(" ") and text.strip() in PREPENDED:
            word = attrs.evolve(opened[-1].word, text=text + opened[-1].word.text)
            opened[-1] = attrs.evolve(opened[-1], word=word, first=span.first)
        else:
            opened.append(span)
    words: list[WordSpan] = []
    for span in reversed(opened):
        if words and _continues(words[-1].word.text, span.word.text):
            words[-1] = _extended(words[-1], span)
        else:
            words.append(span)
    return words


def _continues(before: str, text: str) -> bool:
    """Return whether *text* belongs to the word *before* it."""
    if before[-1].isspace() or text[0].isspace():
        return False
    return text in APPENDED or not (is_unspaced(before[-1]) or is_unspaced(text[0]))


def _extended(span: WordSpan, piece: WordSpan) -> WordSpan:
    """Return *span* with the tokens of *piece*, and with its time where it has letters."""
    text = span.word.text + piece.word.text
    if not any(character.isalnum() for character in piece.word.text):
        return attrs.evolve(span, word=attrs.evolve(span.word, text=text), stop=piece.stop)
    old, new = span.stop - span.first, piece.stop - piece.first
    mean = ((span.word.probability or 0) * old + (piece.word.probability or 0) * new) / (old + new)
    word = Word(span.word.start, piece.word.end, text, mean)
    return attrs.evolve(span, word=word, stop=piece.stop)
