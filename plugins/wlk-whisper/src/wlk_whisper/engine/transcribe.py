"""The LocalAgreement engine call over any Network: audio in, words with times out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import Hypothesis
from wlk_whisper.engine.decoding import decode
from wlk_whisper.engine.engine import contains_no_speech
from wlk_whisper.engine.prompt import previous_tokens
from wlk_whisper.engine.token_budget import token_budget
from wlk_whisper.engine.word_times import drop_loop, tighten_to_speech

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_whisper.engine.engine import DecodingOptions, WhisperEngine
    from wlk_whisper.engine.passes import Passes

__all__ = ["transcribe"]


def transcribe(
    audio: NDArray[np.float32],
    *,
    engine: WhisperEngine,
    options: DecodingOptions,
    prompt: str,
    language: str | None,
) -> Passes[Hypothesis]:
    """
    Transcribe float32[n] at 16 kHz, 0 < n <= 30 s, without state of other calls.

    The text is decoded with timestamps, as in Whisper's training, and aligned in a second pass
    without them.  Words have times in seconds from the start of the audio and the mean probability
    of their tokens.  A window whose probability of no speech is above NO_SPEECH_THRESHOLD has no
    words.

    Raises:
        ChoiceTooClose: a choice may be another one in a pass without other streams.

    """
    encoder_output, work = yield from engine.encode(audio, options.context)
    if language is None:
        language, detection_work = yield from engine.detect_language(encoder_output)
        work += detection_work
    tokenizer = engine.tokenizer(language, options.task)
    previous = previous_tokens(
        tokenizer, prompt, n_text_ctx=engine.network.n_text_ctx, keyterms=options.keyterms
    )
    result = yield from decode(
        engine.network,
        encoder_output,
        [*previous, *tokenizer.sot_sequence],
        logit_filter=engine.logit_filter(tokenizer, has_timestamps=True),
        budget=token_budget(len(audio), language, task=options.task),
        beam_size=options.beam_size,
    )
    work += result.work
    tokens = [token for token in result.tokens if token < tokenizer.eot]
    if not tokens or contains_no_speech(result):
        return Hypothesis(language=language, work=work)
    spans, alignment_work = yield from engine.align(tokenizer, encoder_output, tokens, len(audio))
    words = drop_loop([span.word for span in spans])
    return Hypothesis(
        words=tighten_to_speech(words, audio), language=language, work=work + alignment_work
    )
