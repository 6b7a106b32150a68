"""The recognizer of a Voxtral stream: audio in steps of 80 ms in, words with times out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_core.streaming import Word
from wlk_frameworks.features import FRAME_SAMPLES, WINDOW_SAMPLES, EnergyContour
from wlk_frameworks.grid import FrameGrid, GridRecognizer
from wlk_voxtral.detokenizer import StreamingDetokenizer
from wlk_voxtral.tokenizer import STEP_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_frameworks.features import LogMel
    from wlk_voxtral.detokenizer import TimedText
    from wlk_voxtral.speculative import TokenPrediction
    from wlk_voxtral.tokenizer import TekkenTokenizer

TAIL_STEPS = 10  # steps of silence after the delay, enough for the pieces of a long last word
LOUDNESS_SECONDS = 6.0  # loudness kept before the newest text: a long word and the noise around it

# A frame of the grid is a step.  Its mel frames need samples on both sides of it, because a window
# is centred on a frame.  The first step is the last one of the silence before an utterance.
GRID = FrameGrid(
    frame_samples=STEP_SAMPLES,
    first_frame=-1,
    before_samples=WINDOW_SAMPLES // 2,
    after_samples=WINDOW_SAMPLES // 2 - FRAME_SAMPLES,
    max_call_frames=16,
    max_extra_frames=64,
)


class StepDecoder(Protocol):
    """An engine call for one stream; the engine keeps no state of the stream."""

    def __call__(
        self, mel: NDArray[np.float32], state: Any
    ) -> tuple[Sequence[TokenPrediction], Any, WorkCounters]:
        """
        Decode the next steps of an utterance.

        Args:
            mel: float32[8 n, mels], n > 0, the mel frames of n steps.  The first step of an
                utterance is the last step of the silence before it.
            state: the state returned by the last call; None at the start of an utterance.

        Returns:
            The predictions after the prompt, one per step once the prompt is complete; the new
            state; and the work of the call.

        Raises:
            Exception: an error of the engine; the call can be repeated.

        """
        ...


def silence_features(log_mel: LogMel, steps: int) -> NDArray[np.float32]:
    """Return float32[8 steps, mels], the mel frames of steps without sound."""
    samples = GRID.before_samples + steps * STEP_SAMPLES + GRID.after_samples
    return log_mel(np.zeros(samples, dtype=np.float32))


class VoxtralWords:
    """
    The words of a Voxtral stream; see FrameWords.

    The model emits only the ends of words.  Their starts come from the loudness of the audio.
    """

    language: str | None = None  # the model emits text without naming its language

    def __init__(self, tokenizer: TekkenTokenizer) -> None:
        self._tokenizer = tokenizer
        self.start_utterance()

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The growing word, up to its last complete character."""
        pending = self._text.pending
        if pending is None:
            return ()
        return (_word(pending, self._energy, after=self._committed_end, now=self._text.time),)

    @property
    def nbytes(self) -> int:
        """Bytes of loudness held."""
        return self._energy.nbytes

    def start_utterance(self) -> None:
        """Begin an utterance."""
        self._text = StreamingDetokenizer(self._tokenizer)
        self._energy = EnergyContour(LOUDNESS_SECONDS)
        self._committed_end = 0.0  # end of the last word, in seconds of the utterance

    def is_emitting(self, tokens: Sequence[TokenPrediction]) -> bool:
        """Return whether the last id is not the one that stands for a step without text."""
        return bool(tokens) and tokens[-1].id != self._tokenizer.pad_id

    def push(
        self,
        tokens: Sequence[TokenPrediction],
        audio: NDArray[np.float32],
        *,
        end_frame: int,
        is_last: bool,
    ) -> list[Word]:
        """Take the next predictions; see FrameWords."""
        del end_frame
        text, energy, after = self._text.copy(), copy.copy(self._energy), self._committed_end
        # Not of the padding: it is quieter than any room, and would hide the background.
        energy.append(audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES])
        words: list[Word] = []

        def add(complete: TimedText | None) -> None:
            if complete is not None:
                start = words[-1].end if words else after
                words.append(_word(complete, energy, after=start, now=text.time))

        for prediction in tokens:
            add(text.push(prediction))
        if is_last:
            add(text.finish())
        energy.trim(text.time)
        self._text, self._energy = text, energy
        self._committed_end = words[-1].end if words else after
        return words


def _word(text: TimedText, energy: EnergyContour, *, after: float, now: float) -> Word:
    """Return the word of *text*, which starts no earlier than *after*, when the last one ended."""
    end = max(text.end, after)
    start = energy.word_onset(end, after=after, now=now)
    return Word(start, end, text.text, text.probability)


def voxtral_recognizer(
    decode: StepDecoder,
    *,
    tokenizer: TekkenTokenizer,
    delay_steps: int,
    log_mel: LogMel,
) -> GridRecognizer[TokenPrediction]:
    """Return a recognizer that decodes steps of 80 ms, with text *delay_steps* after its audio."""

    def decode_frames(
        audio: NDArray[np.float32], state: Any, *, first_frame: int
    ) -> tuple[Sequence[TokenPrediction], Any, WorkCounters]:
        del first_frame
        predictions, state, work = decode(log_mel(audio), state)
        with_text = sum(bool(tokenizer.piece(prediction.id)) for prediction in predictions)
        return predictions, state, work + WorkCounters(detokenised_ids=with_text)

    grid = attrs.evolve(GRID, tail_frames=delay_steps + 1 + TAIL_STEPS)
    return GridRecognizer(decode_frames, VoxtralWords(tokenizer), grid)
