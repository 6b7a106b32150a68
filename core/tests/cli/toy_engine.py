"""A backend without a model: token n of coded audio is the digit n - 1."""

from __future__ import annotations

from functools import partial
import logging

import numpy as np

from wlk_conformance.testing.coded_audio import CELL_SAMPLES, read_tokens
from wlk_core.plugins import (
    SAMPLE_RATE,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    Word,
    WorkCounters,
)

WORDS = (
    " zero", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine",
)  # fmt: skip
MEL_FRAME_SAMPLES = 160  # 10 ms


class Engine:
    """Reads coded audio; a token counts from its first half cell on."""

    def transcribe(self, audio, *, prompt, language):
        """Return the words of a buffer."""
        del prompt
        words = [
            Word(token.start / SAMPLE_RATE, token.end / SAMPLE_RATE, WORDS[token.id - 1], 1.0)
            for token in read_tokens(audio)
            if token.end - token.origin >= CELL_SAMPLES // 2 > token.start - token.origin
        ]
        work = WorkCounters(
            encoder_frames=-(-len(audio) // MEL_FRAME_SAMPLES), decoder_positions=len(words) + 1
        )
        return Hypothesis(words=tuple(words), language=language or "en", work=work)


def load(spec, model):
    """Return the backend, whose only model is called digits."""
    if model != "digits":
        raise ModelNotFoundError(f"toy: the model is one of digits; got {model!r}")
    logging.getLogger(__name__).info("%s runs in integers on paper", model)
    return LoadedBackend(spec, Engine(), open_stream=open_stream, warmup=warmup)


def open_stream(engine, config, calls):
    """Return a factory of recognizers; every policy is LocalAgreement here."""
    return partial(
        LocalAgreementRecognizer,
        calls.wrap(engine.transcribe),
        language=config.language,
        tick_seconds=config.options["tick_seconds"],
    )


def warmup(engine, calls):
    """Run the engine once."""
    silence = np.zeros(SAMPLE_RATE, dtype=np.float32)
    calls.wrap(engine.transcribe)(silence, prompt="", language=None)
