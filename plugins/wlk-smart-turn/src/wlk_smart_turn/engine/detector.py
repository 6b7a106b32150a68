"""Detect the ends of turns in one stream: keep its last seconds, run the model in a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_smart_turn.engine.model import FRAMES, TURN_SAMPLES, features

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class SmartTurnDetector:
    """
    Run smart-turn v3 on the last eight seconds of a turn; a shorter turn is preceded by zeros.

    The text of the turn makes no difference.  *model* returns the probability for the features
    float32[80, 800].  The state is always eight seconds of audio.
    """

    def __init__(self, model: Callable[[NDArray[np.float32]], float], *, threshold: float) -> None:
        self._model = model
        self._threshold = threshold
        self._ring: NDArray[np.float32] = np.zeros(TURN_SAMPLES, dtype=np.float32)
        self._next = 0  # index of the next sample, which overwrites the oldest one
        self._runs = 0

    def reset(self) -> None:
        """Forget the turn."""
        self._ring.fill(0.0)

    def close(self) -> None:
        """Forget the turn; the model stays loaded while another stream uses it."""
        self.reset()

    @property
    def stats(self) -> WorkCounters:
        """The frames of 10 ms given to the model: eight seconds per run."""
        return WorkCounters(encoder_frames=self._runs * FRAMES)

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        audio = audio[-TURN_SAMPLES:]
        self._ring[(self._next + np.arange(len(audio))) % TURN_SAMPLES] = audio
        self._next = (self._next + len(audio)) % TURN_SAMPLES

    def end_of_turn(self, text: str) -> float:  # noqa: ARG002 -- as TurnDetector
        """
        Return the probability in [0, 1] that the turn is over.

        A session ends a turn at 0.5 or more, so the odds of the model are divided by those of the
        threshold.
        """
        self._runs += 1
        probability = self._model(features(np.roll(self._ring, -self._next)))
        over = probability * (1.0 - self._threshold)
        return over / (over + (1.0 - probability) * self._threshold)
