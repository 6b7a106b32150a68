"""Voxtral's digits checkpoint as the model of a server: texts of its own tokens."""

from __future__ import annotations

import codecs

from bursts import DELAY_STEPS, STEP
import numpy as np

_MARGIN_BEFORE, _MARGIN_AFTER = 200, 40  # samples around a step, as its mel frames need


class DigitsModel:
    """
    Emits the text of each step as vLLM does: control tokens have none.

    Args:
        engine: that of the backend voxtral-hf.

    """

    def __init__(self, engine):
        self._engine = engine
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._decoded_steps = -1
        self._state = None

    def text(self, step, audio):
        """Return the text of a step; *audio* has what the delay and the encoder need."""
        stop = step + DELAY_STEPS + 1
        first = self._decoded_steps * STEP - _MARGIN_BEFORE
        end = stop * STEP + _MARGIN_AFTER
        window = np.zeros(end - first, np.float32)
        held = audio[max(first, 0) : end]
        window[max(0, -first) : max(0, -first) + len(held)] = held
        predictions, self._state, _ = self._engine.decode(
            self._engine.settings.log_mel(window),
            self._state,
            delay_steps=DELAY_STEPS,
            draft_steps=1,
        )
        self._decoded_steps = stop
        (prediction,) = predictions
        piece = self._engine.settings.tokenizer.piece(prediction.id)
        return self._decoder.decode(piece)
