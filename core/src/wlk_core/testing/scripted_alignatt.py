"""AlignAtt over a scripted engine: attention that jitters, a buffer that is trimmed."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online import Step, Work
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import AlignAtt, AlignedToken, AudioBuffer, Word, frames_in_order
from wlk_core.testing.scripted_pieces import text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.testing.scripted_pieces import Piece

__all__ = ["FRAME_SAMPLES", "AlignedPiece", "AttentionRecognizer", "PieceDecoder", "jitter"]

FRAME_SAMPLES = 320  # 20 ms, the stride of a Whisper encoder
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE
POLICY = AlignAtt(border_frames=8, rewind_frames=25)  # 0.16 s, 0.5 s
BUFFER_SECONDS = 8.0  # of audio kept while committed words can be let go of
QUIET_SECONDS = 1.0  # kept of audio in which nothing was heard: more than half a cell


@attrs.frozen(kw_only=True)
class AlignedPiece:
    """A piece and the frame of the audio given that the engine attended to most."""

    piece: Piece
    frame: int


class PieceDecoder(Protocol):
    """An engine call of AlignAtt: audio in, what is said behind the forced words out."""

    def __call__(
        self, audio: NDArray[np.float32], *, first_sample: int, forced: int
    ) -> tuple[tuple[AlignedPiece, ...], Work]:
        """
        Decode float32[n], the run from sample *first_sample* on.

        The decoder is made to begin with *forced* words: those that were committed and whose audio
        is still there.
        """
        ...


@attrs.frozen
class _Heard:
    """A word as far as it was heard, in frames of the run."""

    text: str
    first: int
    last: int

    @property
    def word(self) -> Word:
        """The word in seconds of the run."""
        return Word(self.first * FRAME_SECONDS, (self.last + 1) * FRAME_SECONDS, self.text, 1.0)


class AttentionRecognizer:
    """
    Decode a bounded buffer every `tick_seconds` and commit by AlignAtt.

    A word is committed with its last piece, so that its bytes are complete.  The buffer is cut
    between two committed words, where the attention goes from the one to the other.
    """

    _buffer: AudioBuffer
    _context: tuple[_Heard, ...]  # committed words whose audio is in the buffer
    _upcoming: tuple[_Heard, ...]  # words that are not final
    _last_frame: int  # the farthest that a committed piece attended to
    _heard_samples: int  # sample number up to which the engine has heard the run

    def __init__(
        self, decode: PieceDecoder, *, language: str | None = None, tick_seconds: float = 1.0
    ) -> None:
        self._decode = decode
        self._tick = max(1, round(tick_seconds * SAMPLE_RATE))
        self._language = language
        self._work = Work()
        self.next_run("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words heard that are not final, in seconds of the run."""
        return tuple(heard.word for heard in self._upcoming)

    @property
    def language(self) -> str | None:
        """The language forced, or English from the first word on."""
        return self._language

    @property
    def work(self) -> Work:
        """The engine's work, added up."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and text held."""
        text = sum(len(heard.text) for heard in (*self._context, *self._upcoming))
        return self._buffer.nbytes + text

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the buffer."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode up to the next point of the grid, or to the end of a complete run."""
        target = self._heard_samples - self._heard_samples % self._tick + self._tick
        if target <= self._buffer.end:
            return self._decode_to(target, is_final=False)
        if not is_last:
            return None
        if self._heard_samples < self._buffer.end:
            return self._decode_to(self._buffer.end, is_final=True)
        if not self._upcoming:
            return None
        committed, self._upcoming = self.hypothesis, ()
        return Step(committed=committed, consumed_samples=self._heard_samples)

    def next_run(self, committed_text: str) -> None:
        """Begin a new run; a script needs no prompt."""
        del committed_text
        self._buffer = AudioBuffer()
        self._context = self._upcoming = ()
        self._last_frame = self._heard_samples = 0

    def close(self) -> None:
        """Let go of audio and text."""
        self.next_run("")

    def _decode_to(self, target: int, *, is_final: bool) -> Step:
        # Nothing is changed before the engine has answered, so that a failed step can be repeated.
        start = self._buffer.start
        heard, work = self._decode(
            self._buffer.view(start, target), first_sample=start, forced=len(self._context)
        )
        self._work += work
        self._heard_samples = target
        pieces = [one.piece for one in heard]
        # The engine counts frames from the start of its audio, policy and times from the run's.
        moved = [
            AlignedToken(repr(one.piece.data), one.frame + start // FRAME_SAMPLES) for one in heard
        ]
        frames = -(-target // FRAME_SAMPLES)
        final = POLICY.count_final(
            moved, frames=frames, last_frame=self._last_frame, is_last=is_final
        )
        placed = frames_in_order(moved, first=self._last_frame, frames=frames)
        words = _words(pieces, [token.frame for token in placed])
        count = sum(piece.is_end for piece in pieces[:final])
        committed, self._upcoming = words[:count], words[count:]
        if committed:
            self._context += committed
            self._last_frame = committed[-1].last
            self._language = self._language or "en"
        self._bound()
        return Step(committed=tuple(word.word for word in committed), consumed_samples=target)

    def _bound(self) -> None:
        """Let go of the oldest words, and of audio without any, while the buffer is too long."""
        limit = round(BUFFER_SECONDS * SAMPLE_RATE)
        while self._context and self._heard_samples - self._buffer.start > limit:
            gone, self._context = self._context[0], self._context[1:]
            following = (*self._context, *self._upcoming)[:1]
            self._trim(_between(gone, following[0]) if following else gone.last + 1)
        if not self._context and self._heard_samples - self._buffer.start > limit:
            quiet = (self._heard_samples - round(QUIET_SECONDS * SAMPLE_RATE)) // FRAME_SAMPLES
            upcoming = self._upcoming
            self._trim(min(quiet, upcoming[0].first - 2) if upcoming else quiet)

    def _trim(self, frame: int) -> None:
        # Whole frames: the engine counts its own from the cut.
        self._buffer.trim(min(frame, self._heard_samples // FRAME_SAMPLES) * FRAME_SAMPLES)


def jitter(token: int, sample: int, *, seed: int = 0) -> int:
    """Return -1, 0 or 1 frames, drawn from *seed*, the token and where in the run it was said."""
    drawn = blake2b(f"{seed}:{token}:{sample}".encode(), digest_size=2).digest()
    return int.from_bytes(drawn) % 3 - 1


def _words(pieces: list[Piece], frames: list[int]) -> tuple[_Heard, ...]:
    words: list[_Heard] = []
    first = begin = 0
    for place, (piece, frame) in enumerate(zip(pieces, frames, strict=True)):
        if piece.is_start:
            first, begin = frame, place
        if piece.is_end:
            text = text_of(one.data for one in pieces[begin : place + 1])
            words.append(_Heard(text, first, frame))
    return tuple(words)


def _between(word: _Heard, following: _Heard) -> int:
    """Return the first frame of the second half of what lies between two words."""
    return (word.last + 1 + following.first) // 2
