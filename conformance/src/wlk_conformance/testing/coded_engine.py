"""An engine that transcribes coded audio, and a detector that fits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_conformance.scripted.engine import DIGIT_WORDS, ScriptedEngine
from wlk_conformance.testing.coded_audio import CodedToken
from wlk_core.backend import BackendSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from wlk_core.plugins import Hypothesis
    from wlk_core.processor import OnlineProcessor

__all__ = ["DIGIT_WORDS", "SCRIPT", "BackendOf", "CodedEngine", "LoudIsSpeech"]

SCRIPT = [CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]


class CodedEngine:
    """Transcribe coded audio; engine calls named in `fail_at`, counted from 1, raise instead."""

    def __init__(
        self, fail_at: Collection[int] = (), before_call: Callable[[], None] | None = None
    ) -> None:
        self.calls = 0
        self.fail_at = frozenset(fail_at)
        self.before_call = before_call
        self._engine = ScriptedEngine()

    def __call__(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        """Return the tokens whose first half cell lies in *audio*."""
        self.calls += 1
        if self.before_call is not None:
            self.before_call()
        if self.calls in self.fail_at:
            raise RuntimeError(f"engine call {self.calls} was scripted to fail")
        return self._engine.transcribe(audio, prompt=prompt, language=language)


class LoudIsSpeech:
    """A detector for coded audio: any sample that is not zero is speech."""

    frame_samples = 512

    def __call__(self, frame: NDArray[np.float32]) -> float:
        """Return 1 for speech, 0 for silence."""
        return 1.0 if np.any(frame) else 0.0

    def reset(self) -> None:
        """Keep no state."""


class BackendOf:
    """A backend of a single stream, the one given or the one that a function opens."""

    spec = BackendSpec(name="coded", api=1, summary="coded audio", load="wlk_conformance:load")

    def __init__(self, stream: OnlineProcessor | Callable[[], OnlineProcessor]) -> None:
        self.stream = stream

    def create_processor(self, **_options: object) -> OnlineProcessor:
        """Return the stream."""
        return self.stream() if callable(self.stream) else self.stream
