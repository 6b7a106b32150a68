"""The decoder's prompt, and how many tokens may follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE

if TYPE_CHECKING:
    from faster_whisper.tokenizer import Tokenizer

# Less than half of the 448 positions of every Whisper, as in openai/whisper.
MAX_PROMPT_TOKENS = 223

# Of earlier text in AlignAtt's prompt.  Committed words are forced while their audio is in the
# buffer; text before it costs its positions at every tick, and no encoder frames.  Of 465 words of
# English with tiny.en, 82 were wrong without it, 78 with it or with a buffer of 12 s, and 70 in
# whole recordings.  The 200 characters that there are at most have 40 to 50 tokens in English.
MAX_CONTEXT_TOKENS = 50
# New tokens for which AlignAtt keeps positions, however long the committed prefix is.
MIN_NEW_TOKENS = 64
# Bounds for a decoder that does not stop.
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


def previous_tokens(
    tokenizer: Tokenizer,
    prompt: str,
    *,
    keyterms: str = "",
    room: int = MAX_PROMPT_TOKENS,
    max_tokens: int = MAX_PROMPT_TOKENS,
) -> list[int]:
    """
    Return the tokens of the text before the audio, as many as *room* and their mark.

    These are the beginning of *keyterms* and then the end of *prompt*, at most *max_tokens*.
    Without either there are none at all, because an empty previous text changes the transcript.
    """
    terms, text = (
        # Special tokens are numbered from the end of text on; spelled in a prompt they are none.
        [token for token in tokenizer.encode(f" {part}") if token < tokenizer.eot] if part else []
        for part in (keyterms, prompt)
    )
    terms = terms[:room]
    kept = min(len(text), max_tokens, room - len(terms))
    previous = [*terms, *text[len(text) - kept :]]
    return [tokenizer.sot_prev, *previous] if previous else []
