"""The recognizer of a Voxtral stream: audio in steps of 80 ms in, words with times out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wlk_core.plugins import Step, WorkCounters
from wlk_core.streaming import AudioBuffer, Word
from wlk_frameworks.features import FRAME_SAMPLES, WINDOW_SAMPLES, EnergyContour
from wlk_voxtral.detokenizer import StreamingDetokenizer
from wlk_voxtral.tokenizer import STEP_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_frameworks.features import LogMel
    from wlk_voxtral.detokenizer import TimedText
    from wlk_voxtral.speculative import TokenPrediction
    from wlk_voxtral.tokenizer import TekkenTokenizer

MAX_CALL_STEPS = 16  # per engine call; live audio is decoded one step at a time
TAIL_STEPS = 10  # steps of silence after the delay, enough for the pieces of a long last word
MAX_EXTRA_STEPS = 64  # further steps of silence while text is still emitted
LOUDNESS_SECONDS = 6.0  # loudness kept before the newest text: a long word and the noise around it

# The mel frames of a step need samples on both sides of it, because a window is centred on a frame.
_MARGIN_BEFORE = WINDOW_SAMPLES // 2
_MARGIN_AFTER = WINDOW_SAMPLES // 2 - FRAME_SAMPLES


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
    samples = _MARGIN_BEFORE + steps * STEP_SAMPLES + _MARGIN_AFTER
    return log_mel(np.zeros(samples, dtype=np.float32))


class VoxtralRecognizer:
    """
    Recognise audio in steps of 80 ms; text is emitted `delay_steps` after its audio.

    Steps lie on a fixed grid from the start of the utterance, and the mel frames of each come from
    the samples around it, so the chunks in which audio arrives do not change them.  One call of
    `step` decodes the complete steps, up to MAX_CALL_STEPS.  A complete utterance is padded with
    zeros, as in training, until all of its text is emitted.  That takes a single call: if audio
    were inserted between two, padding decoded so far would become a pause in the utterance.
    """

    def __init__(
        self,
        decode: StepDecoder,
        *,
        tokenizer: TekkenTokenizer,
        delay_steps: int,
        log_mel: LogMel,
    ) -> None:
        self._decode = decode
        self._tokenizer = tokenizer
        self._delay_steps = delay_steps
        self._log_mel = log_mel
        self._work = WorkCounters()
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The growing word, up to its last complete character."""
        pending = self._text.pending
        if pending is None:
            return ()
        return (self._word(pending, self._committed_end, self._text.time),)

    @property
    def language(self) -> str | None:
        """None, because the model emits text without naming its language."""
        return None

    @property
    def work(self) -> WorkCounters:
        """The total work of the engine."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio, loudness and decoder cache held."""
        state = 0 if self._state is None else self._state.nbytes
        return self._buffer.nbytes + self._energy.nbytes + state

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio to be decoded."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the complete steps; if there are none and *is_last*, the rest of the utterance."""
        if self._is_padded:
            return None
        complete = (self._buffer.end - _MARGIN_AFTER) // STEP_SAMPLES
        if complete > self._decoded_steps:
            end = min(complete, self._decoded_steps + MAX_CALL_STEPS)
            predictions, state, work = self._decode_steps(self._decoded_steps, end, self._state)
            return self._commit(predictions, state, work, end)
        return self._decode_rest() if is_last else None

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; the model takes no prompt."""
        del committed_text
        self._buffer = AudioBuffer()
        self._text = StreamingDetokenizer(self._tokenizer)
        self._energy = EnergyContour(LOUDNESS_SECONDS)
        self._state: Any = None
        self._decoded_steps = -1  # -1: the last step of the silence before the utterance
        self._committed_end = 0.0  # end of the last word, in seconds of the utterance
        self._is_padded = False

    def close(self) -> None:
        """Release audio, text and decoder cache."""
        self.start_utterance("")

    def _decode_rest(self) -> Step:
        """Decode the rest of a complete utterance, and silence until no more text is emitted."""
        start, state = self._decoded_steps, self._state
        audio_steps = math.ceil(self._buffer.end / STEP_SAMPLES)
        end = audio_steps + self._delay_steps + 1 + TAIL_STEPS
        latest_end = end + MAX_EXTRA_STEPS
        predictions: list[TokenPrediction] = []
        total = WorkCounters()
        while start < end:
            call_end = min(end, start + MAX_CALL_STEPS)
            batch, state, work = self._decode_steps(start, call_end, state)
            predictions += batch
            total += work
            start = call_end
            emits_text = bool(predictions) and predictions[-1].id != self._tokenizer.pad_id
            if start == end and emits_text and end < latest_end:
                end += 1
        return self._commit(predictions, state, total, end, is_padded=True)

    def _decode_steps(
        self, start: int, end: int, state: Any
    ) -> tuple[Sequence[TokenPrediction], Any, WorkCounters]:
        audio = self._audio(
            start * STEP_SAMPLES - _MARGIN_BEFORE, end * STEP_SAMPLES + _MARGIN_AFTER
        )
        return self._decode(self._log_mel(audio), state)

    def _audio(self, start_sample: int, end_sample: int) -> NDArray[np.float32]:
        """Return these samples of the utterance, with zeros outside it."""
        audio = np.zeros(end_sample - start_sample, dtype=np.float32)
        first, end = max(start_sample, 0), min(end_sample, self._buffer.end)
        if first < end:
            audio[first - start_sample : end - start_sample] = self._buffer.view(first, end)
        return audio

    def _commit(
        self,
        predictions: Sequence[TokenPrediction],
        state: Any,
        work: WorkCounters,
        end: int,
        *,
        is_padded: bool = False,
    ) -> Step:
        """Adopt the engine's output up to step *end*; nothing changes until all has been read."""
        self._measure_loudness(end)
        text = self._text.copy()
        words: list[Word] = []
        for prediction in predictions:
            self._add(words, text.push(prediction), text.time)
        if is_padded:
            self._add(words, text.finish(), text.time)
        work += WorkCounters(detokenised_ids=text.detokenised - self._text.detokenised)
        self._state, self._decoded_steps, self._is_padded = state, end, is_padded
        self._text, self._work = text, self._work + work
        self._committed_end = words[-1].end if words else self._committed_end
        end_sample = end * STEP_SAMPLES
        self._buffer.trim(min(max(0, end_sample - _MARGIN_BEFORE), self._buffer.end))
        self._energy.trim(text.time)
        consumed = min(max(0, end_sample), self._buffer.end)
        return Step(committed=tuple(words), consumed_samples=consumed)

    def _measure_loudness(self, end: int) -> None:
        """Append the loudness of the steps up to *end*, without padding: it is not real quiet."""
        start_sample = self._energy.samples
        end_sample = min(end * STEP_SAMPLES, self._buffer.end)
        end_sample -= end_sample % FRAME_SAMPLES
        if end_sample > start_sample:
            self._energy.append(self._audio(start_sample, end_sample))

    def _add(self, words: list[Word], text: TimedText | None, now: float) -> None:
        """Append the word of a complete text, which starts no earlier than the word before ends."""
        if text is not None:
            words.append(self._word(text, words[-1].end if words else self._committed_end, now))

    def _word(self, text: TimedText, after: float, now: float) -> Word:
        end = max(text.end, after)
        start = self._energy.word_onset(end, after=after, now=now)
        return Word(start, end, text.text, text.probability)
