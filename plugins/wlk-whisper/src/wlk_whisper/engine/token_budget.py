"""How many tokens a stretch of audio can contain: a bound for a decoder that does not stop."""

from __future__ import annotations

from wlk_core.plugins import SAMPLE_RATE

__all__ = ["token_budget"]

TOKENS_PER_SECOND = 15  # faster than anyone speaks, in scripts with words in the vocabulary
BYTE_TOKENS_PER_SECOND = 45  # 15 characters of three bytes, one token a byte
SPARE_TOKENS = 16  # timestamps and punctuation of the shortest stretch

# Languages whose scripts have few words in the multilingual vocabulary.  Their everyday sentences
# take 0.7 (Thai) to 3.0 (Tibetan) tokens a character; English takes 0.3, Japanese 0.5.  Measured.
_BYTE_LEVEL_LANGUAGES = frozenset(
    {
        "am", "as", "bn", "bo", "gu", "hi", "hy", "ka", "km", "kn", "lo", "ml", "mn", "mr", "my",
        "ne", "pa", "sa", "si", "ta", "te", "th",
    }
)  # fmt: skip


def token_budget(samples: int, language: str | None, *, task: str = "transcribe") -> int:
    """Return how many tokens the text of *samples* of speech at 16 kHz may have."""
    is_byte_level = task == "transcribe" and language in _BYTE_LEVEL_LANGUAGES
    rate = BYTE_TOKENS_PER_SECOND if is_byte_level else TOKENS_PER_SECOND
    return SPARE_TOKENS + round(rate * samples / SAMPLE_RATE)
