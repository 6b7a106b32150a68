"""A recognizer that streams by itself: 80 ms of audio in, the text of a fixed delay ago out."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.testing.coded_audio import CELL_SAMPLES, CELL_SECONDS, read_tokens
from wlk_core.plugins import Step, WorkCounters
from wlk_core.streaming import AudioBuffer, Word, find_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

DELAY_STEPS = 6  # 0.48 s, a usual delay of models with delayed streams
CONTEXT_PIECES = 96  # the decoder ends its text by itself after so many pieces
LOOP_TIMES, LOOP_PIECES = 6, 12  # so many repeats of an n-gram of so many pieces are a loop
MEL_FRAMES = 8  # in a step, 100 a second
PIECE_BYTES = 2  # a Chinese or Thai character takes 3, so no piece of one is a character

_HALF_CELL = CELL_SAMPLES // 2  # of its first samples must be present to recognise a token
_STEPS = DELAY_STEPS + 2  # in view: the step being decoded, the one before it and the delay
_STATE_BYTES = 4 * _STEPS * CELL_SAMPLES + 4 * CONTEXT_PIECES


@attrs.frozen(kw_only=True)
class Piece:
    """Bytes of a word of UTF-8 text, and whether the word begins and ends with them."""

    data: bytes
    is_start: bool = False
    is_end: bool = False


def split_word(text: str) -> tuple[Piece, ...]:
    """
    Return the pieces of *text*, a word of the vocabulary with its own spacing.

    There are at least two, because the first and the last one mark where a word begins and ends:
    a word of PIECE_BYTES or less gets an empty piece at its end.
    """
    data = text.encode()
    if len(data) <= PIECE_BYTES:
        return (Piece(data=data, is_start=True), Piece(data=b"", is_end=True))
    cuts = range(0, len(data), PIECE_BYTES)
    return tuple(
        Piece(
            data=data[cut : cut + PIECE_BYTES],
            is_start=cut == 0,
            is_end=cut + PIECE_BYTES >= len(data),
        )
        for cut in cuts
    )


def decode_pieces(pieces: Iterable[bytes]) -> str:
    """Return the text of the pieces of one word; bytes of an incomplete character wait."""
    return b"".join(pieces).decode("utf-8", errors="ignore")


END_OF_TEXT = Piece(data=b"")


@attrs.frozen(kw_only=True, eq=False)
class DecoderState:
    """What the engine carries from step to step of an utterance; each step makes a new one."""

    audio: NDArray[np.float32] = attrs.field(
        factory=lambda: np.zeros(_STEPS * CELL_SAMPLES, dtype=np.float32)
    )
    steps: int = 0  #: of the utterance, decoded so far
    emitted: tuple[bytes, ...] = ()  #: by the decoder since its text began


#: An engine call of a natively streaming model: takes float32[1280] and returns the text of the
#: step DELAY_STEPS before it.
StepDecoder = Callable[
    ["NDArray[np.float32]", DecoderState], tuple[tuple[Piece, ...], DecoderState]
]


def decode_step(
    audio: NDArray[np.float32], state: DecoderState, vocabulary: Sequence[str]
) -> tuple[tuple[Piece, ...], DecoderState]:
    """
    Return the pieces of the step that lies DELAY_STEPS back, and the next state.

    A word begins in the step in which its first half cell is complete, and its last piece comes in
    the one in which it ends.  END_OF_TEXT marks where the decoder ended its text: when its context
    is full, or when it detected a loop.
    """
    in_view = np.concatenate([state.audio[CELL_SAMPLES:], audio])
    view_start = (state.steps - _STEPS + 1) * CELL_SAMPLES  # in samples of the utterance
    step_start = (state.steps - DELAY_STEPS) * CELL_SAMPLES  # of the step that is decoded
    events: list[tuple[int, tuple[Piece, ...]]] = []
    for token in read_tokens(in_view):
        origin, end = token.origin + view_start, token.end + view_start
        if origin <= -_HALF_CELL or end - origin < _HALF_CELL:
            continue  # cut in two by the utterance's start or end: recognised on the other side
        if token.id > len(vocabulary):
            continue
        pieces = split_word(vocabulary[token.id - 1])
        if step_start < origin + _HALF_CELL <= step_start + CELL_SAMPLES:
            events.append((origin + _HALF_CELL, pieces[:-1]))
        if step_start < end <= step_start + CELL_SAMPLES:
            events.append((end, pieces[-1:]))
    pieces = tuple(piece for _, group in sorted(events, key=itemgetter(0)) for piece in group)
    emitted = state.emitted
    output: list[Piece] = []
    for piece in pieces:
        output.append(piece)
        emitted = (*emitted, piece.data)
        is_loop = find_loop(emitted, times=LOOP_TIMES, longest=LOOP_PIECES)
        if len(emitted) == CONTEXT_PIECES or is_loop:
            output.append(END_OF_TEXT)
            emitted = ()
    return tuple(output), DecoderState(audio=in_view, steps=state.steps + 1, emitted=emitted)


def cut_step(
    answer: tuple[tuple[Piece, ...], DecoderState], share: float
) -> tuple[tuple[Piece, ...], DecoderState]:
    """Return the answer of `decode_step` as if the decoder had ended its text within the step."""
    pieces, state = answer
    kept = (*pieces[: int(share * len(pieces))], END_OF_TEXT)
    return kept, attrs.evolve(state, emitted=())


class NativeRecognizer:
    """
    Decode a step of 80 ms at a time; text comes DELAY_STEPS later.

    The delay is subtracted from every time.  A complete utterance is padded with zeros until all
    of its text was emitted.  An end of text inside the model begins its text anew and touches
    nothing else.
    """

    _buffer: AudioBuffer  # audio that waits for the engine
    _state: DecoderState
    _is_padded: bool  # the utterance is complete, and all of its text was emitted
    _pieces: tuple[bytes, ...]  # of the word that is not complete
    _word_start: float  # where that word begins, in seconds of the utterance
    _decoded_time: float  # where the step decoded last ends

    def __init__(self, decode: StepDecoder, *, language: str | None = None) -> None:
        self._decode = decode
        self._language = language
        self._work = WorkCounters()
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The word that is not complete, as far as its characters are."""
        text = decode_pieces(self._pieces)
        if not text.strip():
            return ()
        return (Word(self._word_start, max(self._word_start, self._decoded_time), text, 1.0),)

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
        """Append float32[n] to the audio that waits for the engine."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the next step; at the end of a complete utterance its rest and the padding."""
        first, stop = self._state.steps * CELL_SAMPLES, self._buffer.end
        if first + CELL_SAMPLES <= stop:
            return self._decode_all([self._buffer.view(first, first + CELL_SAMPLES)])
        if not is_last or self._is_padded:
            return None
        rest = np.zeros(CELL_SAMPLES, dtype=np.float32)
        rest[: stop - first] = self._buffer.view(first, stop)
        # All of it or nothing, because audio inserted after half of the padding would be decoded
        # as if a pause came before it.
        step = self._decode_all([rest] * (stop > first) + [np.zeros_like(rest)] * DELAY_STEPS)
        self._is_padded = True
        return step

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; a script needs no prompt."""
        del committed_text
        self._buffer = AudioBuffer()
        self._state = DecoderState()
        self._is_padded = False
        self._pieces = ()
        self._word_start = self._decoded_time = 0.0

    def close(self) -> None:
        """Release audio and text."""
        self.end_utterance("")

    def _decode_all(self, steps: Sequence[NDArray[np.float32]]) -> Step:
        # Nothing is changed before the engine has answered, so that a failed step can be repeated.
        state = self._state
        outputs: list[tuple[Piece, ...]] = []
        for audio in steps:
            pieces, state = self._decode(audio, state)
            outputs.append(pieces)
        steps_before, self._state = self._state.steps, state
        stop = min(state.steps * CELL_SAMPLES, self._buffer.end)
        self._buffer.trim(stop)
        self._work += WorkCounters(
            encoder_frames=MEL_FRAMES * len(steps),
            decoder_positions=len(steps),
            decoder_forwards=len(steps),
            detokenised_ids=sum(piece is not END_OF_TEXT for group in outputs for piece in group),
        )
        committed: list[Word] = []
        for number, pieces in enumerate(outputs, steps_before + 1 - DELAY_STEPS):
            committed += self._complete_words(pieces, number * CELL_SECONDS)
        return Step(committed=tuple(committed), consumed_samples=stop)

    def _complete_words(self, pieces: Sequence[Piece], time: float) -> list[Word]:
        """Take the pieces of the step that ends at *time*; return the words that they complete."""
        words: list[Word] = []
        for piece in pieces:
            if piece is END_OF_TEXT:
                continue  # clock, audio, spacing and the incomplete word stay as they are
            if piece.is_start:
                self._word_start, self._pieces = time - CELL_SECONDS, ()
            self._pieces = (*self._pieces, piece.data)
            if piece.is_end:
                words.append(Word(self._word_start, time, decode_pieces(self._pieces), 1.0))
                self._pieces = ()
        if words:
            self._language = self._language or "en"
        self._decoded_time = max(0.0, time)
        return words
