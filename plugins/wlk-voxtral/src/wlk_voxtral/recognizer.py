"""A recognizer around a model with delayed streams: one id for every 80 ms of audio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from wlk_core.online.recognizer import Step
from wlk_core.processor import WorkCounters
from wlk_core.streaming.audio_buffer import AudioBuffer
from wlk_core.streaming.energy import EnergyContour
from wlk_core.streaming.log_mel import FRAME_SAMPLES, WINDOW_SAMPLES, LogMel
from wlk_core.streaming.words import Word
from wlk_voxtral.detokenizer import StreamingDetokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming.speculative import TokenPrediction
    from wlk_voxtral.detokenizer import TimedText
    from wlk_voxtral.tokenizer import TekkenTokenizer

__all__ = ["StepDecoder", "StepState", "VoxtralRecognizer", "silence_features"]

CELL_SAMPLES = 1280  # 80 ms: one id
MOST_CELLS = 16  # that one step takes; live there is one at a time
ROOM_CELLS = 10  # behind the last audio: for the pieces of a long last word (mistral-common)
LAST_CELLS = 64  # more of them, at most, while text still comes
HELD_SECONDS = 6.0  # of loudness, in front of what was said last: a long word, and what is quiet

_FRAMES = CELL_SAMPLES // FRAME_SAMPLES
_BEFORE = WINDOW_SAMPLES // 2  # samples by which the frames of a cell reach out of it in front ...
_BEHIND = WINDOW_SAMPLES // 2 - FRAME_SAMPLES  # ... and behind


class StepState(Protocol):
    """What a model carries from call to call of a run; a call returns a new one."""

    @property
    def nbytes(self) -> int:
        """Bytes held on whatever device."""
        ...


S = TypeVar("S", bound=StepState)


class StepDecoder(Protocol[S]):
    """An engine call of a model with delayed streams; nothing of a stream stays in it."""

    def __call__(
        self, mel: NDArray[np.float32], state: S | None
    ) -> tuple[Sequence[TokenPrediction], S, WorkCounters]:
        """
        Hear the next cells of a run.

        Args:
            mel: float32[8 n, mels], n > 0, the frames of n cells of 80 ms.  The first cell of a
                run is the last one of the silence in front of it.
            state: what the last call returned, unchanged; None at the start of a run.

        Returns:
            The choices made behind the prompt, one a cell once it is complete; the new state; and
            the work done.

        Raises:
            Exception: whatever the engine raises; the call can be repeated.

        """
        ...


def silence_features(log_mel: LogMel, cells: int) -> NDArray[np.float32]:
    """Return float32[8 cells, mels], the features of cells of 80 ms in which nothing is heard."""
    return log_mel(np.zeros(_BEFORE + cells * CELL_SAMPLES + _BEHIND, dtype=np.float32))


class VoxtralRecognizer(Generic[S]):
    """
    Hear cells of 80 ms and say what was said a delay ago.

    Cells lie on a fixed grid from the start of the run, and each is heard with the samples around
    it, so that no cut of the audio changes anything.  One step takes the cells that are there, up
    to MOST_CELLS.  A complete run is padded with zeros as in training, until all of it was said,
    in one step: padding that a later insert found there would be heard as a pause.
    """

    _buffer: AudioBuffer
    _text: StreamingDetokenizer
    _onsets: EnergyContour
    _state: S | None
    _cells: int  # heard so far; the run begins with the silence in front of it
    _end: float  # of the last word committed, in seconds of the run
    _is_padded: bool

    def __init__(
        self, decode: StepDecoder[S], *, tekken: TekkenTokenizer, delay_steps: int, log_mel: LogMel
    ) -> None:
        self._decode = decode
        self._tekken = tekken
        self._delay = delay_steps
        self._log_mel = log_mel
        self._work = WorkCounters()
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The word that is being said, as far as its characters are complete."""
        pending = self._text.pending
        return () if pending is None else (self._word(pending),)

    @property
    def language(self) -> str | None:
        """Not told: these models write what they hear without naming its language."""
        return None

    @property
    def work(self) -> WorkCounters:
        """The engine's work, added up."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio, loudness and model state held."""
        state = 0 if self._state is None else self._state.nbytes
        return self._buffer.nbytes + self._onsets.nbytes + state

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to what waits for the engine."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Hear the cells that are complete; at the end of a complete run what is left of it."""
        if self._is_padded:
            return None
        complete = (self._buffer.end - _BEHIND) // CELL_SAMPLES
        if complete > self._cells:
            behind = min(complete, self._cells + MOST_CELLS)
            choices, state, work = self._hear(self._cells, behind, self._state)
            return self._take(choices, state, work, behind)
        return self._hear_rest() if is_last else None

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new run; the model takes no prompt."""
        del committed_text
        self._buffer = AudioBuffer()
        self._text = StreamingDetokenizer(self._tekken)
        self._onsets = EnergyContour(HELD_SECONDS)
        self._state = None
        self._cells = -1
        self._end = 0.0
        self._is_padded = False

    def close(self) -> None:
        """Let go of audio, text and model state."""
        self.end_utterance("")

    def _hear_rest(self) -> Step:
        """Hear what is left of a complete run, and silence until nothing more is said."""
        first, state = self._cells, self._state
        whole = -(-self._buffer.end // CELL_SAMPLES)
        behind = whole + self._delay + 1 + ROOM_CELLS
        last = behind + LAST_CELLS
        choices: list[TokenPrediction] = []
        total = WorkCounters()
        while first < behind:
            until = min(behind, first + MOST_CELLS)
            some, state, work = self._hear(first, until, state)
            choices += some
            total += work
            first = until
            if first == behind < last and choices and choices[-1].id != self._tekken.pad_id:
                behind += 1
        if state is None:
            raise AssertionError("a run that is padded was heard")
        self._is_padded = True
        return self._take(choices, state, total, behind)

    def _hear(
        self, first: int, behind: int, state: S | None
    ) -> tuple[Sequence[TokenPrediction], S, WorkCounters]:
        audio = self._audio(first * CELL_SAMPLES - _BEFORE, behind * CELL_SAMPLES + _BEHIND)
        return self._decode(self._log_mel(audio), state)

    def _audio(self, first: int, behind: int) -> NDArray[np.float32]:
        """Return samples of the run, zeros where it has none."""
        audio = np.zeros(behind - first, dtype=np.float32)
        held_first, held_behind = max(first, 0), min(behind, self._buffer.end)
        if held_first < held_behind:
            audio[held_first - first : held_behind - first] = self._buffer.view(
                held_first, held_behind
            )
        return audio

    def _take(
        self, choices: Sequence[TokenPrediction], state: S, work: WorkCounters, behind: int
    ) -> Step:
        """Make what the engine answered the state of this run: nothing was changed before."""
        self._state, self._cells = state, behind
        self._listen(behind)
        self._buffer.trim(min(max(0, behind * CELL_SAMPLES - _BEFORE), self._buffer.end))
        before = self._text.detokenised
        words: list[Word] = []
        for choice in choices:
            self._add(words, self._text.push(choice))
        if self._is_padded:
            self._add(words, self._text.finish())
        self._onsets.trim(self._text.time)
        self._work += work
        self._work += WorkCounters(detokenised_ids=self._text.detokenised - before)
        consumed = min(max(0, behind * CELL_SAMPLES), self._buffer.end)
        return Step(committed=tuple(words), consumed_samples=consumed)

    def _listen(self, behind: int) -> None:
        """Remember how loud the next cells are; the zeros behind the last audio are no quiet."""
        first = self._onsets.samples
        heard = min(behind * CELL_SAMPLES, self._buffer.end) // FRAME_SAMPLES * FRAME_SAMPLES
        if heard > first:
            self._onsets.append(self._audio(first, heard))

    def _add(self, words: list[Word], said: TimedText | None) -> None:
        """Append what is said now, which ends the word before."""
        if said is not None:
            words.append(self._word(said))
            self._end = words[-1].end

    def _word(self, said: TimedText) -> Word:
        end = max(said.end, self._end)
        start = self._onsets.word_onset(end, after=self._end, now=self._text.time)
        return Word(start, end, said.text, said.probability)
