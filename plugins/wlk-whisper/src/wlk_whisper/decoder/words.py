"""From tokens with boundaries to words with times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.streaming import Word
from wlk_whisper.decoder.timing import POSITION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper.tokenizer import Tokenizer
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["spell"]

PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 -- the punctuation of Whisper's languages
INCOMPLETE = "\ufffd"


def spell(
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    bounds: NDArray[np.int64],
    probabilities: NDArray[np.float64],
) -> tuple[Word, ...]:
    """
    Return the words of *tokens*, in seconds from the start of the audio.

    Punctuation goes with the word it belongs to and changes neither its times nor its probability,
    which is the mean of its tokens'.  Bytes of an unfinished character wait for the rest: words
    end before them.

    Args:
        tokenizer: knows where words divide in its language.
        tokens: text only, neither timestamps nor the end.
        bounds: int64[tokens + 1], the encoder position where each token begins, and the end.
        probabilities: float64[tokens].

    """
    if not tokens:
        return ()
    texts, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    words: list[Word] = []
    place = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        behind = place + len(group)
        start, end = bounds[place] * POSITION_SECONDS, bounds[behind] * POSITION_SECONDS
        likely = min(1.0, max(0.0, float(probabilities[place:behind].mean())))
        words.append(Word(float(start), float(end), text, likely))
        place = behind
    whole = next((i for i, word in enumerate(words) if INCOMPLETE in word.text), len(words))
    return tuple(word for word in _with_punctuation(words[:whole]) if word.text.strip())


def _with_punctuation(words: list[Word]) -> list[Word]:
    """Return *words* with opening marks at the next word and closing ones at the one before."""
    opened: list[Word] = []
    for word in reversed(words):
        is_opening = word.text.startswith(" ") and word.text.strip() in PREPENDED
        if is_opening and opened:
            opened[-1] = attrs.evolve(opened[-1], text=word.text + opened[-1].text)
        else:
            opened.append(word)
    closed: list[Word] = []
    for word in reversed(opened):
        if closed and word.text in APPENDED and not closed[-1].text.endswith(" "):
            closed[-1] = attrs.evolve(closed[-1], text=closed[-1].text + word.text)
        else:
            closed.append(word)
    return closed
