"""Assemble words from the deltas of vLLM: one per step of 80 ms, most of them empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_frameworks.features import FRAME_SAMPLES, EnergyContour
from wlk_realtime.engine.pieces import STEP_SAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEP_SECONDS = STEP_SAMPLES / SAMPLE_RATE
_LOUDNESS_SECONDS = 6.0  # of audio to find the start of a word in: a long word and noise around it


class StepWords:
    """
    Assemble the words of one generation.

    Delta number *k* belongs to the audio up to ``0.08 (k + 1)`` s, whatever the delay of the model.
    At the end of a word the model emits a marker, then the tokens of the word.  Markers and pauses
    have empty deltas.  So a word ends at the step where its text begins, and is complete at the
    next empty delta or the next space.  Its start is found from the loudness of the audio.

    A character of several tokens can cause an empty delta within a word, which then becomes two
    words without a space between them.
    """

    def __init__(self) -> None:
        self._energy = EnergyContour(_LOUDNESS_SECONDS)
        self._samples = 0
        self._steps = 0
        self._text = ""
        self._end = 0.0  # of the growing word
        self._has_end = False  # `_end` is that of the growing word
        self._committed_end = 0.0

    @property
    def pending(self) -> tuple[Word, ...]:
        """The growing word, if there is one."""
        return (self._word(),) if self._text.strip() else ()

    def append(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n], the next steps, before their deltas; only the last can be short."""
        self._samples += len(audio)
        self._energy.append(audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES])

    def push(self, text: str) -> list[Word]:
        """Add the delta of the next step; return the word that it completes, if any."""
        start = self._time
        self._steps += 1
        words = self.finish() if not text or text[0].isspace() else []
        if text and not self._has_end:
            self._has_end, self._end = True, start
        self._text += text
        self._energy.trim(self._time)
        return words

    @property
    def _time(self) -> float:
        return STEP_SECONDS * self._steps

    def finish(self) -> list[Word]:
        """Complete the growing word and return it, if there is one."""
        self._has_end = False
        if not self._text.strip():
            return []  # a lone space belongs to the word that follows
        word = self._word()
        self._text, self._committed_end = "", word.end
        return [word]

    def _word(self) -> Word:
        end = max(min(self._end, self._samples / SAMPLE_RATE), self._committed_end)
        start = self._energy.word_onset(end, after=self._committed_end, now=self._time)
        return Word(start, end, self._text)
