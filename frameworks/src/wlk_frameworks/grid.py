"""
Recognise audio on a grid of frames, as models that stream natively do.

A transducer, a CTC model or a decoder with a token per frame reads each frame of an utterance once.
A plugin provides the engine call and the assembly of words; `GridRecognizer` decides which frames
are complete and how many are decoded at a time, adds silence after the utterance, and changes the
state of the stream only once the engine has answered.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs
import numpy as np

from wlk_core.plugins import Step, WorkCounters
from wlk_core.streaming import AudioBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming import Word

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@attrs.frozen(kw_only=True)
class FrameGrid:
    """
    The frames in which a model reads an utterance.

    Frame k is the samples from ``k * frame_samples`` to ``(k + 1) * frame_samples``.  To decode it,
    the model also reads `before_samples` in front of it and `after_samples` behind it.
    """

    frame_samples: int
    first_frame: int = 0  #: -1 for a model that begins in the silence before the utterance
    before_samples: int = 0
    after_samples: int = 0
    chunk_frames: int = 1  #: frames that the model decodes together; a call decodes whole chunks
    max_call_frames: int = 16  #: limit of an engine call; live audio is decoded chunk by chunk
    has_few_shapes: bool = False  #: calls have 1, 2, 4, ... chunks, and so few different sizes
    tail_frames: int = 0  #: frames of silence after an utterance, enough for its last token
    max_extra_frames: int = 0  #: further frames of silence while a word is still emitted

    @property
    def call_chunks(self) -> int:
        """The most chunks of an engine call."""
        return max(1, self.max_call_frames // self.chunk_frames)


class FrameDecoder(Protocol[T_co]):
    """An engine call for one stream; the engine keeps no state of the stream."""

    def __call__(
        self, audio: NDArray[np.float32], state: Any, *, first_frame: int
    ) -> tuple[Sequence[T_co], Any, WorkCounters]:
        """
        Decode the next frames of an utterance.

        Args:
            audio: the frames with the samples before and after them; zeros outside the utterance.
            state: the state returned by the last call, which is never changed in place and has
                `nbytes`; None at the start of an utterance.
            first_frame: the number of the first frame.

        Returns:
            What the model emits, the new state or None without any, and the work of the call.

        Raises:
            Exception: an error of the engine; the call can be repeated.

        """
        ...


class FrameWords(Protocol[T_contra]):
    """The words of a stream, assembled from what a model emits."""

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The words that are not final."""
        ...

    @property
    def language(self) -> str | None:
        """The language, forced or detected; None while unknown."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held, text aside."""
        ...

    def start_utterance(self) -> None:
        """Begin an utterance, whose times start at 0."""
        ...

    def is_emitting(self, tokens: Sequence[T_contra]) -> bool:
        """Return whether a word goes on after *tokens*, all those of the end of an utterance."""
        ...

    def push(
        self,
        tokens: Sequence[T_contra],
        audio: NDArray[np.float32],
        *,
        end_frame: int,
        is_last: bool,
    ) -> Sequence[Word]:
        """
        Take what the frames up to *end_frame* emitted; return the words that are final now.

        *audio* is that of the frames, without padding.  With *is_last* all words become final.  If
        this raises, nothing has changed; and it changes nothing that a shallow copy shares.
        """
        ...


@attrs.frozen
class _Answer(Generic[T]):
    """What the engine made of the frames up to `end`."""

    tokens: Sequence[T]
    state: Any
    work: WorkCounters
    end: int


class GridRecognizer(Generic[T]):
    """
    A Recognizer for a model that decodes the frames of a grid, each of them once.

    Frames lie on a fixed grid from the start of the utterance, whatever the pieces in which audio
    arrives.  A call of `step` decodes the complete chunks.  A complete utterance is padded with
    silence until all of its text is emitted.  That takes a single step: if audio were inserted
    between two, padding decoded so far would become a pause in the utterance.

    A flush is prepared by that very step, whose answer is kept instead of committed: an engine
    leaves the state that it is given as it is, so audio that comes after all goes on from there.
    """

    # The rest of the utterance, if a flush was prepared and no audio came since.
    _prepared: _Answer[T] | None

    def __init__(self, decode: FrameDecoder[T], words: FrameWords[T], grid: FrameGrid) -> None:
        self._decode = decode
        self._words = words
        self._grid = grid
        self._work = WorkCounters()
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The words that are not final."""
        return self._words.hypothesis

    @property
    def language(self) -> str | None:
        """The language, forced or detected; None while unknown."""
        return self._words.language

    @property
    def work(self) -> WorkCounters:
        """The total work of the engine."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and of the model's state held."""
        prepared = None if self._prepared is None else self._prepared.state
        states = sum(int(state.nbytes) for state in (self._state, prepared) if state is not None)
        return self._buffer.nbytes + self._words.nbytes + states

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio to be decoded, which makes a prepared flush useless."""
        self._buffer.append(audio)
        self._prepared = None

    def prepare_flush(self) -> tuple[Word, ...]:
        """Decode the rest of the utterance, and keep the answer for the last step of a flush."""
        if self._is_padded or not self._buffer.end:
            return ()
        rest = self._prepared or self._decode_rest()
        words = self._read(rest, copy.copy(self._words), is_last=True)
        self._work += rest.work
        self._prepared = attrs.evolve(rest, work=WorkCounters())
        return tuple(words)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the complete chunks; if there are none and *is_last*, the rest of the audio."""
        if self._is_padded:
            return None
        grid = self._grid
        complete = (self._buffer.end - grid.after_samples) // grid.frame_samples
        chunks = min((complete - self._frame) // grid.chunk_frames, grid.call_chunks)
        if chunks <= 0:
            if not is_last:
                return None
            return self._commit(self._prepared or self._decode_rest(), is_last=True)
        if grid.has_few_shapes:
            chunks = 1 << (chunks.bit_length() - 1)
        end = self._frame + chunks * grid.chunk_frames
        tokens, state, work = self._decode_frames(self._frame, end, self._state)
        return self._commit(_Answer(tokens, state, work, end), is_last=False)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; the model takes no text before it."""
        del committed_text
        self._buffer = AudioBuffer()
        self._words.start_utterance()
        self._state: Any = None
        self._frame = self._grid.first_frame  # the next to decode
        self._is_padded = False
        self._prepared = None

    def close(self) -> None:
        """Release audio, text and the model's state."""
        self.start_utterance("")

    def _decode_rest(self) -> _Answer[T]:
        """Decode the rest of a complete utterance, and silence after it; change nothing."""
        grid = self._grid
        start, state = self._frame, self._state
        frames = math.ceil(self._buffer.end / grid.frame_samples) + grid.tail_frames
        chunks = math.ceil((frames - grid.first_frame) / grid.chunk_frames)
        end = grid.first_frame + chunks * grid.chunk_frames
        latest_end = end + grid.max_extra_frames
        tokens: list[T] = []
        total = WorkCounters()
        while start < end:
            call_end = min(start + grid.call_chunks * grid.chunk_frames, end)
            emitted, state, work = self._decode_frames(start, call_end, state)
            tokens += emitted
            total += work
            start = call_end
            if start == end and end < latest_end and self._words.is_emitting(tokens):
                end += grid.chunk_frames
        return _Answer(tokens, state, total, end)

    def _decode_frames(
        self, start: int, end: int, state: Any
    ) -> tuple[Sequence[T], Any, WorkCounters]:
        """Decode frames *start* to *end*, with zeros for samples outside the utterance."""
        grid = self._grid
        first_sample = start * grid.frame_samples - grid.before_samples
        end_sample = end * grid.frame_samples + grid.after_samples
        audio = np.zeros(end_sample - first_sample, dtype=np.float32)
        first, last = max(first_sample, 0), min(end_sample, self._buffer.end)
        if first < last:
            audio[first - first_sample : last - first_sample] = self._buffer.view(first, last)
        return self._decode(audio, state, first_frame=start)

    def _commit(self, answer: _Answer[T], *, is_last: bool) -> Step:
        """Adopt an answer of the engine; nothing changes until all of it has been read."""
        grid, buffer, end = self._grid, self._buffer, answer.end
        words = self._read(answer, self._words, is_last=is_last)
        self._work += answer.work
        self._state, self._frame, self._is_padded = answer.state, end, is_last
        self._prepared = None
        buffer.trim(min(max(0, end * grid.frame_samples - grid.before_samples), buffer.end))
        return Step(committed=tuple(words), consumed_samples=self._consumed(end))

    def _read(self, answer: _Answer[T], words: FrameWords[T], *, is_last: bool) -> Sequence[Word]:
        """Return what an answer makes final in *words*, which take it."""
        first = max(0, self._frame * self._grid.frame_samples)
        audio = self._buffer.view(first, self._consumed(answer.end))
        return words.push(answer.tokens, audio, end_frame=answer.end, is_last=is_last)

    def _consumed(self, end_frame: int) -> int:
        """Return the samples of the utterance in the frames up to *end_frame*."""
        return min(max(0, end_frame * self._grid.frame_samples), self._buffer.end)
