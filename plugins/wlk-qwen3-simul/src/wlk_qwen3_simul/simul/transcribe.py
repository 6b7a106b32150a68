"""The LocalAgreement engine call: a stretch of audio in, timed words out, nothing kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core import Hypothesis
from wlk_qwen3_simul.simul.listener import Listener

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_qwen3_simul.simul.engine import Engine, StreamSettings

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
    Transcribe float32[n] at 16 kHz, n > 0, on its own.

    *prompt* is only what the first word is joined to: the system turn is for hotwords, and the
    model was not trained on earlier text there.
    """
    heard = Listener(engine, settings)(
        audio, first_sample=0, context=(), prompt=prompt, language=language, is_last=True
    )
    words = tuple(one.word for one in heard.words)
    return Hypothesis(words=words, language=heard.language, work=heard.work)
