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

__all__ = ["APPENDED", "PREPENDED", "Spelt", "spell"]

# Marks that belong to the word behind them, and to the one before; faster_whisper/transcribe.py.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 -- the punctuation of Whisper's languages
INCOMPLETE = "\ufffd"


@attrs.frozen
class Spelt:
    """A word, and which of the tokens it was made of: ``tokens[first:behind]``."""

    word: Word
    first: int
    behind: int


def spell(
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    bounds: NDArray[np.int64],
    probabilities: NDArray[np.float64],
) -> tuple[Spelt, ...]:
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
    words: list[Spelt] = []
    place = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        if INCOMPLETE in text:
            break
        behind = place + len(group)
        start, end = bounds[place] * POSITION_SECONDS, bounds[behind] * POSITION_SECONDS
        likely = min(1.0, max(0.0, float(probabilities[place:behind].mean())))
        words.append(Spelt(Word(float(start), float(end), text, likely), place, behind))
        place = behind
    return tuple(spelt for spelt in _with_punctuation(words) if spelt.word.text.strip())


def _with_punctuation(words: list[Spelt]) -> list[Spelt]:
    """Return *words* with opening marks at the next word and closing ones at the one before."""
    opened: list[Spelt] = []
    for spelt in reversed(words):
        text = spelt.word.text
        if opened and text.startswith(" ") and text.strip() in PREPENDED:
            opened[-1] = attrs.evolve(
                _retold(opened[-1], text + opened[-1].word.text), first=spelt.first
            )
        else:
            opened.append(spelt)
    closed: list[Spelt] = []
    for spelt in reversed(opened):
        text = spelt.word.text
        if closed and text in APPENDED and not closed[-1].word.text.endswith(" "):
            closed[-1] = attrs.evolve(
                _retold(closed[-1], closed[-1].word.text + text), behind=spelt.behind
            )
        else:
            closed.append(spelt)
    return closed


def _retold(spelt: Spelt, text: str) -> Spelt:
    return attrs.evolve(spelt, word=attrs.evolve(spelt.word, text=text))
