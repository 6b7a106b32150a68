"""How many tokens a stretch of audio can hold: a bound for a decoder that runs away."""

from __future__ import annotations

__all__ = ["token_budget"]

RATE = 16_000
TOKENS_PER_SECOND = 15  # more than anyone speaks, in scripts that the vocabulary has words for
BYTES_PER_SECOND = 45  # 15 characters of three bytes each (defect B54)
SPARE_TOKENS = 16  # timestamps and punctuation of the shortest stretch

# Scripts of which the multilingual vocabulary has few words: everyday sentences take 0.7 (Thai) to
# 3.0 (Tibetan) tokens a character, against 0.3 in English and 0.5 in Japanese.  Measured.
_SPELT = frozenset(
    {
        "am", "as", "bn", "bo", "gu", "hi", "hy", "ka", "km", "kn", "lo", "ml", "mn", "mr", "my",
        "ne", "pa", "sa", "si", "ta", "te", "th",
    }
)  # fmt: skip


def token_budget(samples: int, language: str | None, *, task: str = "transcribe") -> int:
    """Return how many tokens the text of *samples* of speech at 16 kHz may have."""
    is_spelt = task == "transcribe" and language in _SPELT
    rate = BYTES_PER_SECOND if is_spelt else TOKENS_PER_SECOND
    return SPARE_TOKENS + round(rate * samples / RATE)
