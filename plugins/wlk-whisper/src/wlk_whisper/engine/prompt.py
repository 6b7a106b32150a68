"""The decoder's prompt, and how many tokens may follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper.tokenizer import Tokenizer

__all__ = ["MAX_PROMPT_TOKENS", "Prompt", "build_prompt", "previous_tokens", "token_budget"]

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


@attrs.frozen(kw_only=True)
class Prompt:
    """The forced tokens of an AlignAtt call."""

    previous: list[int]  #: earlier text
    start: list[int]  #: the start of transcript
    prefix: list[int]  #: tokens of the committed words whose audio is in the buffer
    budget: int  #: how many tokens may follow


def previous_tokens(tokenizer: Tokenizer, prompt: str, *, keyterms: str = "") -> list[int]:
    """
    Return the tokens of the text before the audio, at most MAX_PROMPT_TOKENS and their mark.

    These are the beginning of *keyterms* and then the end of *prompt*.  Without either there are no
    tokens at all, because an empty previous text changes the transcript.
    """
    terms = tokenizer.encode(f" {keyterms}")[:MAX_PROMPT_TOKENS] if keyterms else []
    text = tokenizer.encode(f" {prompt}") if prompt else []
    previous = [*terms, *text[max(0, len(text) - (MAX_PROMPT_TOKENS - len(terms))) :]]
    return [tokenizer.sot_prev, *previous] if previous else []


def build_prompt(
    tokenizer: Tokenizer,
    *,
    prefix: Sequence[int],
    static_prompt: str,
    scrolling_prompt: str,
    budget: int,
    n_text_ctx: int,
) -> Prompt:
    """
    Divide the decoder's positions among prefix, new tokens and earlier text.

    The committed prefix comes first, apart from MIN_NEW_TOKENS positions for new text.  The
    *budget* of new tokens comes next.  Earlier text takes the rest, at most MAX_PROMPT_TOKENS:
    first the *static_prompt* of the stream, then the end of the *scrolling_prompt*.
    """
    start = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
    left = n_text_ctx - len(start)
    prefix = prefix[max(0, len(prefix) - (left - min(budget, MIN_NEW_TOKENS))) :]
    left -= len(prefix)
    budget = min(budget, left)
    left = max(0, min(left - budget - 1, MAX_PROMPT_TOKENS))
    static = tokenizer.encode(f" {static_prompt}")[:left] if static_prompt else []
    scrolling = tokenizer.encode(f" {scrolling_prompt}") if scrolling_prompt else []
    kept = min(len(scrolling), MAX_CONTEXT_TOKENS, left - len(static))
    previous = [*static, *scrolling[len(scrolling) - kept :]]
    return Prompt(
        previous=[tokenizer.sot_prev, *previous] if previous else [],
        start=start,
        prefix=list(prefix),
        budget=budget,
    )
