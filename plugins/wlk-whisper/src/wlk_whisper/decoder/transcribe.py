"""The LocalAgreement engine call over any Network: a stretch of audio in, timed words out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core import Hypothesis
from wlk_whisper.alignment import settle_times, without_loops
from wlk_whisper.decoder.budget import token_budget
from wlk_whisper.decoder.engine import NO_SPEECH
from wlk_whisper.decoder.search import decode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_whisper.decoder.engine import Engine, StreamSettings

__all__ = ["transcribe"]


def transcribe(
    audio: NDArray[np.float32],
    *,
    engine: Engine,
    settings: StreamSettings,
    prompt: str,
    language: str | None,
) -> Hypothesis:
    """
    Transcribe float32[n] at 16 kHz, 0 < n <= 30 s, on its own.

    The text is decoded with timestamps, as Whisper was trained to, and aligned in a second pass
    without them.  Words carry times in seconds from the start of the audio and the mean probability
    of their tokens.  A window that is more likely than NO_SPEECH no speech gives none.
    """
    encoded, work = engine.encode(audio, is_fitted=settings.is_fitted)
    if language is None:
        language, detected = engine.detect_language(encoded)
        work += detected
    tokenizer = engine.tokenizer(language, settings.task)
    found = decode(
        engine.network,
        encoded,
        [*engine.previous(tokenizer, prompt), *tokenizer.sot_sequence],
        rules=engine.rules(tokenizer, has_timestamps=True),
        budget=token_budget(len(audio), language, task=settings.task),
        beam_size=settings.beam_size,
    )
    work += found.work
    tokens = [token for token in found.tokens if token < tokenizer.eot]
    if not tokens or found.no_speech > NO_SPEECH:
        return Hypothesis(language=language, work=work)
    spelt, aligned = engine.align(tokenizer, encoded, tokens, len(audio))
    words = without_loops([entry.word for entry in spelt])
    return Hypothesis(words=settle_times(words, audio), language=language, work=work + aligned)
