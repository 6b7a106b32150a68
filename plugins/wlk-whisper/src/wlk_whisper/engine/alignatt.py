"""
The AlignAtt engine call: decode the text after the committed prefix, with each token's frame.

After Wang et al., "Simul-Whisper: Attention-Guided Streaming Whisper with Truncation Detection"
(Interspeech 2024), and SimulStreaming (Machacek and Polak, 2025).  The decoder is forced to begin
with the committed words of the buffer and continues after them; the policy itself is in wlk-core.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, AlignedHypothesis, AlignedWord
from wlk_whisper.engine.decoding import decode
from wlk_whisper.engine.features import audio_encoder_frames
from wlk_whisper.engine.prompt import (
    MAX_CONTEXT_TOKENS,
    MAX_PROMPT_TOKENS,
    MIN_NEW_TOKENS,
    previous_tokens,
    token_budget,
    tokens_per_second,
)
from wlk_whisper.engine.timing import ENCODER_FRAME_SECONDS, token_boundaries
from wlk_whisper.engine.words import (
    drop_loop,
    spoken_tokens,
    tighten_to_speech,
    words_from_tokens,
)

if TYPE_CHECKING:
    from faster_whisper.tokenizer import Tokenizer
    from numpy.typing import NDArray

    from wlk_whisper.engine.decoding import DecodingResult
    from wlk_whisper.engine.engine import DecodingOptions, WhisperEngine


def transcribe_aligned(
    audio: NDArray[np.float32],
    *,
    engine: WhisperEngine,
    options: DecodingOptions,
    static_prompt: str = "",
    context: tuple[AlignedWord, ...],
    prompt: str,
    language: str | None,
    is_last: bool,
    first_sample: int = 0,
    remainder_samples: int = 0,
) -> AlignedHypothesis:
    """
    Return the words that follow *context* in up to 30 s of audio, float32[n] at 16 kHz.

    A single pass without timestamps yields the text and its times: dynamic time warping of the
    cross attention finds where each token begins and ends.  A token's frame is where its sound
    ends, corrected for the lag of the heads.  Simul-Whisper takes the most attended frame, which is
    often in the pause after the word and so commits words later.  Calls share no state, because
    later audio changes the encoder output of earlier audio; *first_sample* and *remainder_samples*
    are therefore unused.  *static_prompt* precedes the audio throughout the stream.

    """
    del first_sample, remainder_samples
    encoder_output, language, probability, work = engine.encode(audio, options, language)
    tokenizer = engine.tokenizer(language, options.task)
    committed_samples = max(0, round(context[-1].end * SAMPLE_RATE)) if context else 0
    # Decoder positions go to the committed prefix, except MIN_NEW_TOKENS that are reserved for new
    # text, then to the budget of new tokens; earlier text gets the rest.
    start = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
    budget = token_budget(max(0, len(audio) - committed_samples), language, task=options.task)
    positions = engine.network.n_text_ctx - len(start)
    prefix = [token for word in context for token in word.tokens if isinstance(token, int)]
    prefix = prefix[max(0, len(prefix) - (positions - min(budget, MIN_NEW_TOKENS))) :]
    positions -= len(prefix)
    budget = min(budget, positions)
    previous = previous_tokens(
        tokenizer,
        prompt,
        keyterms=static_prompt,
        max_total=max(0, min(positions - budget - 1, MAX_PROMPT_TOKENS)),
        max_tokens=MAX_CONTEXT_TOKENS,
    )
    logit_filter = engine.logit_filter(tokenizer, has_timestamps=False)
    if prefix:
        # The text has already begun with the prefix, so it may end right after it.
        logit_filter = attrs.evolve(logit_filter, begin_suppress_tokens=np.zeros(0, np.int64))
    decode_over = partial(
        decode,
        engine.network,
        prompt=[*start, *prefix],
        previous=previous,
        logit_filter=logit_filter,
        budget=budget,
        beam_size=options.beam_size,
        output_attention=True,
    )
    result: DecodingResult | None
    if prefix:
        result = decode_over(encoder_output)
        work += result.work
    else:
        result, _, decoding_work = engine.decode_speech(
            decode_over, encoder_output, tokenizer, audio, options
        )
        work += decoding_work
    if result is None:
        return AlignedHypothesis(language=language, work=work)
    words, detokenised = _new_words(
        tokenizer,
        result,
        prefix_tokens=len(prefix),
        audio_frames=audio_encoder_frames(len(audio)),
        lag_seconds=engine.alignment_heads.lag_seconds,
        is_last=is_last,
    )
    work = attrs.evolve(work, detokenised_ids=(work.detokenised_ids or 0) + detokenised)
    timed = tighten_to_speech([*context, *drop_loop(words)], audio)[len(context) :]
    return AlignedHypothesis(
        words=timed, language=language, language_probability=probability, work=work
    )


def _new_words(
    tokenizer: Tokenizer,
    result: DecodingResult,
    *,
    prefix_tokens: int,
    audio_frames: int,
    lag_seconds: float,
    is_last: bool,
) -> tuple[list[AlignedWord], int]:
    """Return the words after the prefix, and how many ids were detokenised for them."""
    tokens = result.tokens
    if not tokens or result.cross_attention is None:
        return [], 0
    attention = result.cross_attention[..., :audio_frames]
    boundaries = token_boundaries(
        attention,
        first_row=result.forced - prefix_tokens - 1,
        unused_rows=0,
    )[prefix_tokens:]
    # If the last token was never an input, its end is unknown: the end of the audio for the length
    # of a repetition, and for its times where it begins.
    ends = np.append(boundaries, audio_frames)[: len(tokens) + 1]
    kept = spoken_tokens(tokens, ends, rate=tokens_per_second(tokenizer.language_code))
    boundaries = np.append(boundaries, boundaries[-1])[: len(tokens) + 1]
    tokens = tuple(tokens[index] for index in kept)
    boundaries = np.append(boundaries[kept], boundaries[-1])
    probabilities = np.exp(result.logprobs[kept].astype(np.float64))
    spans = words_from_tokens(tokenizer, tokens, boundaries, probabilities, lag_seconds=lag_seconds)
    frames = np.clip(boundaries - round(lag_seconds / ENCODER_FRAME_SECONDS), 0, boundaries[-1])
    if not result.has_ended and not is_last:
        spans = spans[:-1]  # the next call may extend the last word
    words = [
        AlignedWord(
            *attrs.astuple(span.word),
            frames=tuple(frames[span.first + 1 : span.end_token + 1].tolist()),
            tokens=tuple(tokens[span.first : span.end_token]),
        )
        for span in spans
    ]
    return words, 2 * len(tokens)
