"""A recognizer that streams by itself: a cell of audio in, what was said a delay ago out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from wlk_core.online import Step, WorkCounters
from wlk_core.streaming import AudioBuffer, Word, find_loop
from wlk_core.testing.coded_audio import CELL_SAMPLES, CELL_SECONDS, read_tokens
from wlk_core.testing.scripted_pieces import END_OF_TEXT_ID, Piece, spell, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DELAY_CELLS", "CellDecoder", "CellState", "NativeRecognizer", "hear_cell"]

DELAY_CELLS = 6  # 0.48 s, as in Voxtral and in models with delayed streams
CONTEXT_PIECES = 96  # the decoder ends its text by itself when it has said so many
LOOP_TIMES, LOOP_PIECES = 6, 12  # said so often, an n-gram of so many pieces is taken for a loop
MEL_FRAMES = 8  # in a cell, 100 a second
END_OF_TEXT = Piece(data=b"")

_HALF = CELL_SAMPLES // 2  # of its first samples must be there for a token to be heard
_CELLS = DELAY_CELLS + 2  # seen at once: the cell decoded, the one before it and the delay
_STATE_BYTES = 4 * _CELLS * CELL_SAMPLES + 4 * CONTEXT_PIECES


@attrs.frozen(kw_only=True, eq=False)
class CellState:
    """What the engine carries from cell to cell of a run; a step makes a new one."""

    audio: NDArray[np.float32] = attrs.field(
        factory=lambda: np.zeros(_CELLS * CELL_SAMPLES, dtype=np.float32)
    )
    cells: int = 0  #: of the run, heard so far
    said: tuple[bytes, ...] = ()  #: by the decoder since its text began


class CellDecoder(Protocol):
    """An engine call of a natively streaming model."""

    def __call__(
        self, audio: NDArray[np.float32], state: CellState
    ) -> tuple[tuple[Piece, ...], CellState]:
        """Hear float32[1280] and return what is said in the cell DELAY_CELLS before it."""
        ...


def hear_cell(
    audio: NDArray[np.float32], state: CellState, vocabulary: Sequence[str]
) -> tuple[tuple[Piece, ...], CellState]:
    """
    Return the pieces of the cell that lies DELAY_CELLS back, and the next state.

    A word begins in the cell in which its first half cell is complete, and its last piece comes in
    the one in which it ends.  END_OF_TEXT stands where the decoder ended its text: where the audio
    says so, when its context is full, or when it caught itself in a loop.
    """
    seen = np.concatenate([state.audio[CELL_SAMPLES:], audio])
    first = (state.cells - _CELLS + 1) * CELL_SAMPLES  # the run's number of the first sample seen
    cell = (state.cells - DELAY_CELLS) * CELL_SAMPLES  # and of the cell that is decoded
    events: list[tuple[int, tuple[Piece, ...]]] = []
    for token in read_tokens(seen):
        origin, end = token.origin + first, token.end + first
        if origin <= -_HALF or end - origin < _HALF:
            continue  # cut in two by the run's start or end: heard on the other side
        if token.id != END_OF_TEXT_ID and token.id > len(vocabulary):
            continue
        is_end_of_text = token.id == END_OF_TEXT_ID
        pieces = (END_OF_TEXT,) if is_end_of_text else spell(vocabulary[token.id - 1])
        if cell < origin + _HALF <= cell + CELL_SAMPLES:
            events.append((origin + _HALF, pieces if is_end_of_text else pieces[:-1]))
        if cell < end <= cell + CELL_SAMPLES and not is_end_of_text:
            events.append((end, pieces[-1:]))
    pieces = tuple(piece for _, some in sorted(events, key=_place) for piece in some)
    said = state.said
    out: list[Piece] = []
    for piece in pieces:
        out.append(piece)
        said = () if piece is END_OF_TEXT else (*said, piece.data)
        if len(said) == CONTEXT_PIECES or find_loop(said, times=LOOP_TIMES, longest=LOOP_PIECES):
            out.append(END_OF_TEXT)
            said = ()
    return tuple(out), CellState(audio=seen, cells=state.cells + 1, said=said)


class NativeRecognizer:
    """
    Hear a cell of 80 ms at a step and say what was said DELAY_CELLS before it.

    The delay is subtracted from every time.  A complete run is padded with zeros until all of it
    was said.  An end of text inside the model begins its text anew and touches nothing else.
    """

    _buffer: AudioBuffer  # audio that waits for the engine
    _state: CellState
    _is_padded: bool  # the run is complete, and all of it was said
    _pieces: tuple[bytes, ...]  # of the word that is being said
    _began: float  # where it began, in seconds of the run
    _said_time: float  # where the cell decoded last ends

    def __init__(self, decode: CellDecoder, *, language: str | None = None) -> None:
        self._decode = decode
        self._language = language
        self._work = WorkCounters()
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The word that is being said, as far as its characters are complete."""
        text = text_of(self._pieces)
        if not text.strip():
            return ()
        return (Word(self._began, max(self._began, self._said_time), text, 1.0),)

    @property
    def language(self) -> str | None:
        """The language forced, or English from the first word on."""
        return self._language

    @property
    def work(self) -> WorkCounters:
        """The engine's work, added up."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and text held, those of the engine's state at their bound."""
        return self._buffer.nbytes + _STATE_BYTES + sum(map(len, self._pieces))

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to what waits for the engine."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Hear the next cell; at the end of a complete run what is left, and padding behind it."""
        first, held = self._state.cells * CELL_SAMPLES, self._buffer.end
        if first + CELL_SAMPLES <= held:
            return self._hear([self._buffer.view(first, first + CELL_SAMPLES)])
        if not is_last or self._is_padded:
            return None
        rest = np.zeros(CELL_SAMPLES, dtype=np.float32)
        rest[: held - first] = self._buffer.view(first, held)
        # All of it or nothing: padding that a later insert found there would be heard as a pause.
        step = self._hear([rest] * (held > first) + [np.zeros_like(rest)] * DELAY_CELLS)
        self._is_padded = True
        return step

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new run; a script needs no prompt."""
        del committed_text
        self._buffer = AudioBuffer()
        self._state = CellState()
        self._is_padded = False
        self._pieces = ()
        self._began = self._said_time = 0.0

    def close(self) -> None:
        """Let go of audio and text."""
        self.end_utterance("")

    def _hear(self, cells: Sequence[NDArray[np.float32]]) -> Step:
        # Nothing is changed before the engine has answered, so that a failed step can be repeated.
        state = self._state
        answers: list[tuple[Piece, ...]] = []
        for audio in cells:
            pieces, state = self._decode(audio, state)
            answers.append(pieces)
        before, self._state = self._state.cells, state
        behind = min(state.cells * CELL_SAMPLES, self._buffer.end)
        self._buffer.trim(behind)
        self._work += WorkCounters(
            encoder_frames=MEL_FRAMES * len(cells),
            decoder_positions=len(cells),
            decoder_forwards=len(cells),
            detokenised_ids=sum(piece is not END_OF_TEXT for some in answers for piece in some),
        )
        committed: list[Word] = []
        for number, pieces in enumerate(answers, before + 1 - DELAY_CELLS):
            committed += self._say(pieces, number * CELL_SECONDS)
        return Step(committed=tuple(committed), consumed_samples=behind)

    def _say(self, pieces: Sequence[Piece], time: float) -> list[Word]:
        """Take the pieces of the cell that ends at *time*; return the words that they complete."""
        words: list[Word] = []
        for piece in pieces:
            if piece is END_OF_TEXT:
                continue  # clock, audio, spacing and the word that is being said stay as they are
            if piece.is_start:
                self._began, self._pieces = time - CELL_SECONDS, ()
            self._pieces = (*self._pieces, piece.data)
            if piece.is_end:
                words.append(Word(self._began, time, text_of(self._pieces), 1.0))
                self._pieces = ()
        if words:
            self._language = self._language or "en"
        self._said_time = max(0.0, time)
        return words


def _place(event: tuple[int, tuple[Piece, ...]]) -> int:
    return event[0]
