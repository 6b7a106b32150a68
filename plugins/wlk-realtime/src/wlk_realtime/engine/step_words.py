"""Assemble words from the texts of steps: one for each 80 ms of audio, most of them empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_core.streaming import EnergyContour
from wlk_core.streaming.features import FRAME_SAMPLES
from wlk_realtime.engine.pieces import STEP_SAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEP_SECONDS = STEP_SAMPLES / SAMPLE_RATE
LOUDNESS_SECONDS = 6.0  # before the newest text: a long word, and the noise around it


class StepWords:
    """
    Assemble the words of one generation.

    Text number *k* stands for the audio up to ``0.08 (k + 1)`` s, whatever the delay of the model.
    The model emits a marker at the end of a word and its text after that.  Marker and pause have
    empty texts, so that a word ends where its first text begins, and is complete with the next
    empty text or the next space.  Its start comes from the loudness of the audio.

    A character of several tokens may bring an empty text in the middle of a word, which is then
    two words without a space between them.
    """

    def __init__(self) -> None:
        self._energy = EnergyContour(LOUDNESS_SECONDS)
        self._samples = 0
        self._steps = 0
        self._text = ""
        self._end = 0.0  # of the growing word
        self._is_open = False  # since an empty text, text came
        self._committed_end = 0.0

    @property
    def pending(self) -> tuple[Word, ...]:
        """The growing word."""
        return (self._word(),) if self._text.strip() else ()

    def append(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n], the next steps, before their texts; only the last may be short."""
        self._samples += len(audio)
        self._energy.append(audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES])

    def push(self, text: str) -> list[Word]:
        """Take the text of the next step; return the word that it completes, if any."""
        start = self._time
        self._steps += 1
        words = self.finish() if not text or text[0].isspace() else []
        if text and not self._is_open:
            self._is_open, self._end = True, start
        self._text += text
        self._energy.trim(self._time)
        return words

    @property
    def _time(self) -> float:
        return STEP_SECONDS * self._steps

    def finish(self) -> list[Word]:
        """Return the growing word, which is complete."""
        self._is_open = False
        if not self._text.strip():
            return []  # a lone space belongs to the word that follows
        word = self._word()
        self._text, self._committed_end = "", word.end
        return [word]

    def _word(self) -> Word:
        end = max(min(self._end, self._samples / SAMPLE_RATE), self._committed_end)
        start = self._energy.word_onset(end, after=self._committed_end, now=self._time)
        return Word(start, end, self._text)
