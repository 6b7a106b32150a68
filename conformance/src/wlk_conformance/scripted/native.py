"""A natively streaming recognizer: 80 ms of audio in, words out after a fixed delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.testing.coded_audio import CELL_SAMPLES, HALF_CELL, read_tokens
from wlk_core.plugins import Step, WorkCounters
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import AudioBuffer, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

DELAY_STEPS = 6  # 0.48 s, a usual delay of natively streaming models
MEL_FRAMES = 8  # per step, at 100 a second

_STEPS = DELAY_STEPS + 2  # in view: the step being decoded, the step before it, and the delay
_STATE_BYTES = 4 * _STEPS * CELL_SAMPLES


@attrs.frozen(kw_only=True, eq=False)
class DecoderState:
    """The state of the engine between the steps of an utterance; each step returns a new one."""

    audio: NDArray[np.float32] = attrs.field(
        factory=lambda: np.zeros(_STEPS * CELL_SAMPLES, dtype=np.float32)
    )
    steps: int = 0  #: decoded so far in the utterance
    words: tuple[Word, ...] = ()  #: words that end in the last decoded step
    begun: tuple[Word, ...] = ()  #: the word that has begun by then but not ended


def decode_step(
    audio: NDArray[np.float32], state: DecoderState, vocabulary: Sequence[str]
) -> DecoderState:
    """
    Return the next state, with the words of the step DELAY_STEPS ago.

    A word begins in the step that completes its first half cell, and ends in the step with its
    last sample.
    """
    in_view = np.concatenate([state.audio[CELL_SAMPLES:], audio])
    view_start = (state.steps - _STEPS + 1) * CELL_SAMPLES  # in samples of the utterance
    step_end = (state.steps - DELAY_STEPS + 1) * CELL_SAMPLES  # of the step that is decoded
    words: list[Word] = []
    begun: list[Word] = []
    for token in read_tokens(in_view):
        origin, end = token.origin + view_start, token.end + view_start
        if origin <= -HALF_CELL or end - origin < HALF_CELL or token.id > len(vocabulary):
            continue  # cut by the start or end of the utterance, and recognised on the other side
        start, text = max(0, origin) / SAMPLE_RATE, vocabulary[token.id - 1]
        if step_end - CELL_SAMPLES < end <= step_end:
            words.append(Word(start, end / SAMPLE_RATE, text, 1.0))
        elif origin + HALF_CELL <= step_end < end:
            begun.append(Word(start, step_end / SAMPLE_RATE, text, 1.0))
    return DecoderState(
        audio=in_view, steps=state.steps + 1, words=tuple(words), begun=tuple(begun)
    )


def cut_step(answer: DecoderState, share: float) -> DecoderState:
    """Return the answer of `decode_step` as if the text had ended within the step."""
    return attrs.evolve(answer, words=answer.words[: int(share * len(answer.words))], begun=())


class NativeRecognizer:
    """Decode a step of 80 ms at a time; words come DELAY_STEPS after their end."""

    _buffer: AudioBuffer  # audio that waits for the engine
    _state: DecoderState
    _is_padded: bool  # the utterance is complete and all of its words were emitted

    def __init__(
        self,
        decode: Callable[[NDArray[np.float32], DecoderState], DecoderState],
        *,
        language: str | None = None,
    ) -> None:
        self._decode = decode
        self.language = language  #: forced, or English from the first word on
        self.work = WorkCounters()  #: total of the engine
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The word that has begun but not ended."""
        return self._state.begun

    @property
    def state_bytes(self) -> int:
        """Bytes of audio held, in the buffer and in the engine's state."""
        return self._buffer.nbytes + _STATE_BYTES

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio that waits for the engine."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the next step, or if `is_last` what remains of the utterance, with padding."""
        first, end = self._state.steps * CELL_SAMPLES, self._buffer.end
        if first + CELL_SAMPLES <= end:
            return self._decode_all([self._buffer.view(first, first + CELL_SAMPLES)])
        if not is_last or self._is_padded:
            return None
        cells = [np.zeros(CELL_SAMPLES, dtype=np.float32) for _ in range(DELAY_STEPS)]
        if end > first:
            rest = np.zeros(CELL_SAMPLES, dtype=np.float32)
            rest[: end - first] = self._buffer.view(first, end)
            cells.insert(0, rest)
        # All or nothing, because audio inserted after a part of the padding would be decoded as if
        # it followed a pause.
        step = self._decode_all(cells)
        self._is_padded = True
        return step

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; a script needs no prompt."""
        del committed_text
        self._buffer = AudioBuffer()
        self._state = DecoderState()
        self._is_padded = False

    def close(self) -> None:
        """Release audio and text."""
        self.start_utterance("")

    def _decode_all(self, steps: Sequence[NDArray[np.float32]]) -> Step:
        # Nothing changes before the engine has answered, so that a failed step can be repeated.
        state = self._state
        words: list[Word] = []
        for audio in steps:
            state = self._decode(audio, state)
            words += state.words
        self._state = state
        decoded_samples = min(state.steps * CELL_SAMPLES, self._buffer.end)
        self._buffer.trim(decoded_samples)
        self.work += WorkCounters(
            encoder_frames=MEL_FRAMES * len(steps),
            decoder_positions=len(steps),
            decoder_forwards=len(steps),
            detokenised_ids=len(words),
        )
        self.language = self.language or ("en" if words else None)
        return Step(committed=tuple(words), consumed_samples=decoded_samples)
