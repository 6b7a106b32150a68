"""How many tokens a stretch of audio can hold: a bound for a decoder that runs away."""

from __future__ import annotations

__all__ = ["token_budget"]

RATE = 16_000
TOKENS_A_SECOND = 15  # more than anyone speaks, in scripts that the vocabulary has words for
SPELT_A_SECOND = 45  # 15 characters of three bytes each (defect B54)
SPARE_TOKENS = 16  # punctuation of the shortest stretch

# Scripts of which the vocabulary has few words.
_SPELT = frozenset({"el", "fa", "hi", "mk", "th"})


def token_budget(samples: int, language: str | None, *, most: int) -> int:
    """
    Return how many tokens the text of *samples* of speech at 16 kHz may have, up to *most*.

    Samples are those without final text: what is new and what was heard and not committed
    (defect D1 took new audio for none).  An unknown *language* may be one that is spelt.
    """
    is_spelt = language is None or language in _SPELT
    rate = SPELT_A_SECOND if is_spelt else TOKENS_A_SECOND
    return min(most, SPARE_TOKENS + round(rate * samples / RATE))
