"""The LocalAgreement engine call: a stretch of audio in, timed words out, no state kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import Hypothesis
from wlk_qwen3_simul.engine.decoder import CachedDecoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_qwen3_simul.engine.engine import DecodingOptions, Engine

__all__ = ["transcribe"]


def transcribe(
    audio: NDArray[np.float32],
    *,
    engine: Engine,
    options: DecodingOptions,
    prompt: str,
    language: str | None,
) -> Hypothesis:
    """
    Transcribe float32[n] at 16 kHz, n > 0, on its own.

    The model does not receive *prompt*, the transcript so far: its system turn holds the hotwords,
    and it was not trained on earlier text.  *prompt* only decides the spacing of the first word.
    """
    hypothesis = CachedDecoder(engine, options)(
        audio,
        first_sample=0,
        remainder_samples=0,
        context=(),
        prompt=prompt,
        language=language,
        is_last=True,
    )
    words = tuple(aligned.word for aligned in hypothesis.words)
    return Hypothesis(words=words, language=hypothesis.language, work=hypothesis.work)
