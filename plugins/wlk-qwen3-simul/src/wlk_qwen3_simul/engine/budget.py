"""The number of tokens that a stretch of audio can hold: the bound of a runaway decoder."""

from __future__ import annotations

from wlk_core.plugins import SAMPLE_RATE

__all__ = ["token_budget"]

TOKENS_PER_SECOND = 15  # faster than speech, in scripts that the vocabulary has words for
SPELLED_TOKENS_PER_SECOND = 45  # 15 characters of three bytes each
SPARE_TOKENS = 16  # punctuation of the shortest stretch

# Scripts that the vocabulary has few words for, so that most characters are spelled by byte.
_SPELLED = frozenset({"el", "fa", "hi", "mk", "th"})


def token_budget(samples: int, language: str | None, *, limit: int) -> int:
    """
    Return how many tokens the text of *samples* of speech at 16 kHz may have, up to *limit*.

    *samples* counts all audio without committed text, new audio and audio decoded before.  An
    unknown *language* gets the larger budget, because it may be a spelled one.
    """
    is_spelled = language is None or language in _SPELLED
    rate = SPELLED_TOKENS_PER_SECOND if is_spelled else TOKENS_PER_SECOND
    return min(limit, SPARE_TOKENS + round(rate * samples / SAMPLE_RATE))
