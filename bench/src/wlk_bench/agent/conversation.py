"""The audio of a session: sentences with quiet between them, and when each begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.annotators.playing import audio_of
from wlk_bench.errors import DataError
from wlk_core.processor import SAMPLE_RATE
from wlk_live.vad import SileroDetector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_bench.data import Sample
    from wlk_bench.reference import ReferenceWord

LEAD_SECONDS = 0.5  # zeros before the first sentence
TAIL_SECONDS = 3.0  # zeros after the last one: more than a server waits for further speech
_SPEECH = 0.5  # probability from which a frame is speech; Silero's own threshold


@attrs.frozen(kw_only=True)
class Sentence:
    """
    What is said from `start` to `end`, in seconds of the session; `words` if their times are known.

    `detected_end` is the end of the last frame that Silero takes for speech, if it does for any.
    """

    id: str
    text: str
    start: float
    end: float
    detected_end: float | None = None
    words: tuple[ReferenceWord, ...] = ()


@attrs.frozen(kw_only=True, eq=False)
class Conversation:
    """The audio of a session, float32[n] at 16 kHz, and its sentences in order."""

    audio: NDArray[np.float32]
    sentences: tuple[Sentence, ...]

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.audio) / SAMPLE_RATE


def compose(samples: Sequence[Sample], *, gap_seconds: float) -> Conversation:
    """
    Return *samples* one after the other, with *gap_seconds* of zeros after each.

    A sample begins and ends with its words, and without their times with its speech, as Silero
    detects it; if it has `ends`, it ends with the last of them.

    Raises:
        DataError: a sample has no text or no speech.

    """
    pieces = [np.zeros(round(LEAD_SECONDS * SAMPLE_RATE), np.float32)]
    sentences: list[Sentence] = []
    length = len(pieces[0])
    for sample in samples:
        audio = np.concatenate(list(audio_of(sample)))
        detected = _detected_speech(audio)
        start, end = _span(sample, detected)
        shift = length / SAMPLE_RATE
        words = tuple(
            attrs.evolve(word, start=word.start + shift, end=word.end + shift)
            for word in sample.reference.words
        )
        sentences.append(
            Sentence(
                id=sample.id,
                text=sample.reference.text,
                start=start + shift,
                end=end + shift,
                detected_end=None if detected is None else detected[1] + shift,
                words=words,
            )
        )
        gap = np.zeros(round(gap_seconds * SAMPLE_RATE), np.float32)
        pieces += [audio, gap]
        length += len(audio) + len(gap)
    pieces.append(np.zeros(round(TAIL_SECONDS * SAMPLE_RATE), np.float32))
    return Conversation(audio=np.concatenate(pieces), sentences=tuple(sentences))


def _span(sample: Sample, detected: tuple[float, float] | None) -> tuple[float, float]:
    if not sample.reference.text.strip():
        raise DataError(f'expected "text" of {sample.id}, got none; a sentence needs its words')
    if words := sample.reference.words:
        start, end = words[0].start, words[-1].end
    elif detected is not None:
        start, end = detected
    else:
        raise DataError(
            f'expected speech in {sample.id}, got none that Silero detects; add "words" with their '
            "times to its line, or leave the recording out"
        )
    return start, sample.ends[-1] if sample.ends else end


def _detected_speech(audio: NDArray[np.float32]) -> tuple[float, float] | None:
    """Return the start of the first frame of speech and the end of the last one."""
    detector = SileroDetector()
    size = detector.frame_samples
    frames = audio[: len(audio) // size * size].reshape(-1, size)
    spoken = np.flatnonzero([detector(frame) >= _SPEECH for frame in frames])
    if not len(spoken):
        return None
    first, last = spoken[[0, -1]] * size / SAMPLE_RATE
    return float(first), float(last + size / SAMPLE_RATE)
