"""Recognise the words of one stream, in the segments that Vosk finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE, Step, WorkCounters
from wlk_core.streaming import AudioBuffer
from wlk_vosk.engine import BLOCK_SAMPLES, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import Word
    from wlk_vosk.engine import Answer, Segment


class VoskRecognizer:
    """
    Recognise each utterance in blocks of 0.2 s, however its audio arrives.

    Vosk ends a segment after half a second without words, or after 20 s.  Until then its words are
    the hypothesis; then they are final, and the next segment begins like a new utterance.  The
    state of a segment can be neither copied nor stored, so its audio is kept, to be decoded again
    after a failure.
    """

    def __init__(
        self,
        decode: Callable[[Request], Answer],
        release: Callable[[Segment], None],
        *,
        language: str | None,
        phrases: tuple[str, ...] | None,
    ) -> None:
        self.language = language
        self._decode = decode
        self._release = release
        self._phrases = phrases
        self._work = WorkCounters()
        self._words: tuple[Word, ...] = ()
        self._segment: Segment | None = None
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The words of the segment so far."""
        return self._words

    @property
    def work(self) -> WorkCounters:
        """The total work of the engine; Vosk allows counting `encoder_frames` only."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of the segment's audio; Vosk does not report the size of its own state."""
        return self._buffer.nbytes + sum(block.nbytes for block in self._history)

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio to decode."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the next block, or what is left at the end of an utterance."""
        start, end = self._buffer.start, self._buffer.start + BLOCK_SAMPLES
        if end > self._buffer.end:
            if not is_last or not (len(self._buffer) or self._history):
                return None
            end = self._buffer.end
        block = self._buffer.view(start, end).copy()
        answer = self._decode(
            Request(
                block=block,
                history=self._history,
                segment=self._segment,
                phrases=self._phrases,
                is_last=is_last and end == self._buffer.end,
            )
        )
        self._work += answer.work
        self._buffer.trim(end)
        self._history.append(block)
        self._segment = answer.segment
        origin = self._segment_start / SAMPLE_RATE
        self._words = tuple(word.shifted(origin) for word in answer.words)
        if not answer.is_final:
            return Step(consumed_samples=end)
        words = self._words
        self._start_segment(end)
        return Step(committed=words, consumed_samples=end)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; Vosk takes no prompt."""
        del committed_text
        self._buffer = AudioBuffer()  # audio to decode
        self._start_segment(0)

    def close(self) -> None:
        """Release the audio and the state of the model."""
        self.start_utterance("")

    def _start_segment(self, sample: int) -> None:
        if self._segment is not None:
            self._release(self._segment)
        self._segment = None
        self._segment_start = sample  # its number in the utterance
        self._history: list[NDArray[np.float32]] = []  # decoded audio, block by block
        self._words = ()
