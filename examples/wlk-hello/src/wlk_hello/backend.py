"""The backend: an engine, wrapped in the parts that wlk-core provides."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import (
    SAMPLE_RATE,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig

FRAME_SAMPLES = 800  # 0.05 s


@attrs.frozen
class BurstDetector:
    """An engine without a model: every sound louder than `threshold` is a word."""

    threshold: float = 0.02  # root mean square of a frame

    def transcribe(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        """Return "hello" for every burst of sound in float32[n]."""
        del prompt, language  # the engine emits the same word in every language
        frames = audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
        is_loud = np.sqrt(np.mean(np.square(frames), axis=1)) > self.threshold
        edges = np.flatnonzero(np.diff(is_loud, prepend=False, append=False))
        seconds = (edges * FRAME_SAMPLES / SAMPLE_RATE).reshape(-1, 2).tolist()
        return Hypothesis(words=tuple(Word(start, end, " hello") for start, end in seconds))


def load(spec: BackendSpec, model: str) -> LoadedBackend[BurstDetector]:
    """Return the backend; `BackendSpec.load` names this function."""
    if model != spec.default_model:
        raise ModelNotFoundError(f"hello has one model; got {model!r}, use: --model toy")
    return LoadedBackend(spec, BurstDetector(), open_stream=open_stream, warmup=warmup)


def open_stream(
    engine: BurstDetector, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that makes the recognizer of a stream."""
    del config  # streams have no options
    return partial(LocalAgreementRecognizer, calls.wrap(engine.transcribe))


def warmup(engine: BurstDetector, calls: EngineCalls) -> None:
    """Run the engine once."""
    silence = np.zeros(SAMPLE_RATE, dtype=np.float32)
    calls.wrap(engine.transcribe)(silence, prompt="", language=None)
