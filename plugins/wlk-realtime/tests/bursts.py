"""A model that emits a word for each burst of sound, and audio with such bursts."""

from __future__ import annotations

import numpy as np

STEP = 1280
PROMPT_STEPS, LEFT_PAD_STEPS, DELAY_STEPS = 39, 32, 6
RIGHT_PAD_STEPS = DELAY_STEPS + 1 + 10
LOOK_AHEAD_SAMPLES = 40  # 2.5 ms


def spoken(*bursts, seconds):
    """Return audio with a tone in each of *bursts*, (start, end) in seconds."""
    audio = np.zeros(round(seconds * 16_000), np.float32)
    for start, end in bursts:
        first, stop = round(start * 16_000), round(end * 16_000)
        audio[first:stop] = 0.3 * np.sin(np.arange(stop - first) * 0.2)
    return audio


BURSTS = ((0.5, 0.9), (1.2, 1.75), (2.4, 3.01))
UTTERANCE = spoken(*BURSTS, seconds=3.5)


def true_end(end):
    """Return the end of the step in which a burst ends, in seconds."""
    return -(-round(end * 16_000) // STEP) * 0.08


def fed(stream, audio, *, chunk=4000):
    """Return the tokens committed while *audio* is inserted in chunks of *chunk* samples."""
    tokens = []
    for first in range(0, len(audio), chunk):
        stream.insert_audio_chunk(audio[first : first + chunk])
        tokens += stream.process_iter().committed
    return tokens


class BurstModel:
    """
    Emit a delta for each step: after a burst, an empty one for the marker, then its number.

    Call `text` once for each step of a generation, in order.
    """

    def __init__(self):
        self._is_loud = False
        self._words = 0
        self._due = []

    def text(self, step, audio):
        """Return the text of a step; *audio* is all audio of the generation so far."""
        part = audio[step * STEP : (step + 1) * STEP]
        loud = np.flatnonzero(np.abs(part) > 0.01)
        was_loud, self._is_loud = self._is_loud, bool(len(loud) and loud[-1] > STEP - 20)
        text = self._due.pop(0) if self._due else ""
        if (was_loud or len(loud)) and not self._is_loud:
            self._due = [f" word{self._words}"]
            self._words += 1
        return text
