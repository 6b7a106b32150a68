"""Words with times from tokens and their boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import Word
from wlk_whisper.engine.timing import ENCODER_FRAME_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
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
) -> tuple[WordSpan, ...]:
    """
    Return the words of *tokens*, in seconds from the start of the audio.

    Punctuation is joined to its word and changes neither the word's times nor its probability,
    which is the mean of its tokens'.  Words end before the bytes of an incomplete character.

    Args:
        tokenizer: splits tokens into words by the rules of its language.
        tokens: text tokens, without timestamps and the end of text.
        boundaries: int64[tokens + 1], the encoder frame where each token begins, and the end.
        probabilities: float64[tokens].

    """
    if not tokens:
        return ()
    texts, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    spans: list[WordSpan] = []
    first = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        if INCOMPLETE_CHARACTER in text:
            break
        stop = first + len(group)
        start, end = (boundaries[index] * ENCODER_FRAME_SECONDS for index in (first, stop))
        probability = min(1.0, max(0.0, float(probabilities[first:stop].mean())))
        spans.append(WordSpan(Word(float(start), float(end), text, probability), first, stop))
        first = stop
    return tuple(span for span in _merge_punctuation(spans) if span.word.text.strip())


def _merge_punctuation(spans: list[WordSpan]) -> list[WordSpan]:
    """Return *spans* with opening marks joined to the next word, closing ones to the previous."""
    opened: list[WordSpan] = []
    for span in reversed(spans):
        text = span.word.text
        if opened and text.startswith(" ") and text.strip() in PREPENDED:
            opened[-1] = attrs.evolve(
                _with_text(opened[-1], text + opened[-1].word.text), first=span.first
            )
        else:
            opened.append(span)
    closed: list[WordSpan] = []
    for span in reversed(opened):
        text = span.word.text
        if closed and text in APPENDED and not closed[-1].word.text.endswith(" "):
            closed[-1] = attrs.evolve(
                _with_text(closed[-1], closed[-1].word.text + text), stop=span.stop
            )
        else:
            closed.append(span)
    return closed


def _with_text(span: WordSpan, text: str) -> WordSpan:
    return attrs.evolve(span, word=attrs.evolve(span.word, text=text))
