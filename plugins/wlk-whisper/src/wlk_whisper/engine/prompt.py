"""The decoder's prompt, and how many tokens may follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE

if TYPE_CHECKING:
    from faster_whisper.tokenizer import Tokenizer

# Less than half of the 448 positions of every Whisper, as in openai/whisper.
MAX_PROMPT_TOKENS = 223

# Limit of earlier text in AlignAtt's prompt.  Committed words are forced while their audio is in
# the buffer; text from before the buffer costs decoder positions at every tick, and no encoder
# frames.  Of 465 English words tiny.en had 82 wrong without it, 78 with it or with a buffer of
# 12 s, and 70 in whole recordings.  The core gives at most 200 characters, which are 40 to 50
# tokens in English.
MAX_CONTEXT_TOKENS = 50
# Positions that AlignAtt reserves for new tokens, however long the committed prefix is.
MIN_NEW_TOKENS = 64
# Limits for a decoder that does not stop.
TOKENS_PER_SECOND = 15  # faster than anyone speaks, in scripts with words in the vocabulary
BYTE_TOKENS_PER_SECOND = 45  # 15 characters of three bytes, one token per byte
EXTRA_TOKENS = 16  # timestamps and punctuation of the shortest audio

# Languages whose scripts have few words in the multilingual vocabulary.  Measured, their everyday
# sentences take 0.7 (Thai) to 3.0 (Tibetan) tokens a character; English takes 0.3, Japanese 0.5.
_BYTE_LEVEL_LANGUAGES = frozenset(
    {
        "am", "as", "bn", "bo", "gu", "hi", "hy", "ka", "km", "kn", "lo", "ml", "mn", "mr", "my",
        "ne", "pa", "sa", "si", "ta", "te", "th",
    }
)  # fmt: skip


def tokens_per_second(language: str | None, *, task: str = "transcribe") -> int:
    """Return how many tokens nobody speaks in a second."""
    is_byte_level = task == "transcribe" and language in _BYTE_LEVEL_LANGUAGES
    return BYTE_TOKENS_PER_SECOND if is_byte_level else TOKENS_PER_SECOND


def token_budget(samples: int, language: str | None, *, task: str = "transcribe") -> int:
    """Return how many tokens the text of *samples* of speech at 16 kHz may have."""
    rate = tokens_per_second(language, task=task)
    return EXTRA_TOKENS + round(rate * samples / SAMPLE_RATE)


def previous_tokens(
    tokenizer: Tokenizer,
    prompt: str,
    *,
    keyterms: str = "",
    max_total: int = MAX_PROMPT_TOKENS,
    max_tokens: int = MAX_PROMPT_TOKENS,
) -> list[int]:
    """
    Return the token that introduces earlier text, and at most *max_total* tokens of it.

    These are the beginning of *keyterms*, then the end of *prompt*, at most *max_tokens* of it.
    Without either the list is empty, because an empty previous text changes the transcript.
    """
    terms = _text_tokens(tokenizer, keyterms)[:max_total]
    text = _text_tokens(tokenizer, prompt)
    kept = min(len(text), max_tokens, max_total - len(terms))
    previous = [*terms, *text[len(text) - kept :]]
    return [tokenizer.sot_prev, *previous] if previous else []


def _text_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of *text*, without special ones, whose ids begin with the end of text."""
    if not text:
        return []
    return [token for token in tokenizer.encode(f" {text}") if token < tokenizer.eot]
