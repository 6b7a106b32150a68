"""The recognizer of a Nemotron stream: chunks of encoder frames in, words with times out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
import numpy as np

from wlk_core.plugins import Step, WorkCounters
from wlk_core.streaming import AudioBuffer
from wlk_nemotron.engine.words import WordAssembler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming import Word
    from wlk_nemotron.checkpoint import CheckpointSettings
    from wlk_nemotron.engine.words import EmittedToken

MAX_CALL_FRAMES = 64  # encoder frames in one engine call; live audio comes one chunk at a time
TAIL_FRAMES = 5  # of silence at least, after the end of an utterance: room for its last token

FRAME_SAMPLES = 1280  # 80 ms: an encoder frame, eight mel frames of 10 ms
MEL_SAMPLES = 160  # between two mel frames
# A mel frame needs a transform of 512 samples centred on it.  Its window has 400 of them, so that
# a frame can be computed before the last 56 are there.
MARGIN = 256
WINDOW_MARGIN = 200


class StreamState(Protocol):
    """The caches of encoder and transducer after a chunk: a value, never changed in place."""

    @property
    def nbytes(self) -> int:
        """Bytes held on any device."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class ChunkRequest:
    """
    The next chunks of an utterance for the engine, which keeps nothing of the stream.

    Attributes:
        audio: float32[160 m + 352], of m mel frames: 8 for each encoder frame, but for the
            first chunk of an utterance, which has 7 fewer.
        first_frame: number of the first encoder frame in the utterance.
        frames: how many there are, a multiple of `chunk_frames`.
        chunk_frames: encoder frames that see each other, and none of later chunks.
        prompt: number of the prompt for the language.
        state: what the last call returned, unchanged; None at the start of an utterance.

    """

    audio: NDArray[np.float32]
    first_frame: int
    frames: int
    chunk_frames: int
    prompt: int
    state: Any


#: tokens in the order of their frames, new state and work of a request
ChunkAnswer: TypeAlias = "tuple[Sequence[EmittedToken], StreamState, WorkCounters]"


class NemotronRecognizer:
    """
    Recognise audio in chunks of encoder frames of 80 ms, as long as the look-ahead.

    Chunks lie on a fixed grid from the start of the utterance, so that no cut of the audio changes
    them.  One call of `step` decodes the complete ones, up to MAX_CALL_FRAMES.  A complete
    utterance is followed by silence until all of its text came.

    Args:
        decode: the engine call.
        settings: of the checkpoint.
        chunk_frames: encoder frames of a chunk.
        language: the code that the stream is forced to; None to detect it.

    """

    def __init__(
        self,
        decode: Callable[[ChunkRequest], ChunkAnswer],
        *,
        settings: CheckpointSettings,
        chunk_frames: int,
        language: str | None,
    ) -> None:
        self._decode = decode
        self._settings = settings
        self._chunk_frames = chunk_frames
        self._forced = language
        self._detected: str | None = None
        self._prompt = settings.prompt(language)
        self._work = WorkCounters()
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The growing word, as far as it was emitted."""
        pending = self._words.pending
        return () if pending is None else (pending,)

    @property
    def language(self) -> str | None:
        """The language forced, or that of the last tag the model emitted."""
        return self._forced or self._detected

    @property
    def work(self) -> WorkCounters:
        """The engine's work, added up."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and caches held."""
        return self._buffer.nbytes + (0 if self._state is None else self._state.nbytes)

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio that waits for the engine."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the complete chunks; at the end of a complete utterance the rest of it."""
        if self._is_padded:
            return None
        # The last mel frame of encoder frame k is centred on its end, sample 1280 k.
        available = (self._buffer.end - WINDOW_MARGIN) // FRAME_SAMPLES + 1
        stop = self._next_stop(available)
        if stop > self._frames:
            return self._commit(*self._decode_frames(self._frames, stop, self._state), stop=stop)
        return self._decode_rest() if is_last else None

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; the model takes no text before it."""
        del committed_text
        self._buffer = AudioBuffer()
        self._words = WordAssembler(self._settings.pieces)
        self._state: StreamState | None = None
        self._frames = 0  # encoder frames decoded so far
        self._is_padded = False

    def close(self) -> None:
        """Release audio, text and caches."""
        self.end_utterance("")

    def _next_stop(self, available: int) -> int:
        """
        Return the end of the next call: complete chunks up to encoder frame *available*.

        The number of chunks is a power of two, so that calls have few shapes.
        """
        chunks = min(available - self._frames, MAX_CALL_FRAMES) // self._chunk_frames
        taken = 1 << (chunks.bit_length() - 1) if chunks > 0 else 0
        return self._frames + taken * self._chunk_frames

    def _decode_rest(self) -> Step:
        """Decode the rest of a complete utterance and silence, all of it or nothing."""
        end = -(-self._buffer.end // FRAME_SAMPLES) + 1 + TAIL_FRAMES
        end += -end % self._chunk_frames
        start, state = self._frames, self._state
        tokens: list[EmittedToken] = []
        total = WorkCounters()
        while start < end:
            stop = min(start + MAX_CALL_FRAMES // self._chunk_frames * self._chunk_frames, end)
            emitted, state, work = self._decode_frames(start, stop, state)
            tokens += emitted
            total += work
            start = stop
        return self._commit(tokens, state, total, stop=end, is_padded=True)

    def _decode_frames(self, start: int, stop: int, state: StreamState | None) -> ChunkAnswer:
        """Decode encoder frames; the mel frames of frame k are 8 k - 7 up to 8 k."""
        first = max(0, (start - 1) * FRAME_SAMPLES + MEL_SAMPLES)
        request = ChunkRequest(
            audio=self._audio(first - MARGIN, (stop - 1) * FRAME_SAMPLES + MARGIN),
            first_frame=start,
            frames=stop - start,
            chunk_frames=self._chunk_frames,
            prompt=self._prompt,
            state=state,
        )
        return self._decode(request)

    def _audio(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples of the utterance, zeros outside of it."""
        audio = np.zeros(stop - start, dtype=np.float32)
        first, end = max(start, 0), min(stop, self._buffer.end)
        if first < end:
            audio[first - start : end - start] = self._buffer.view(first, end)
        return audio

    def _commit(
        self,
        tokens: Sequence[EmittedToken],
        state: StreamState | None,
        work: WorkCounters,
        *,
        stop: int,
        is_padded: bool = False,
    ) -> Step:
        """Adopt the engine's output; nothing changes before all of it was read."""
        words: list[Word] = []
        for token in tokens:
            self._detected = self._settings.languages.get(token.id) or self._detected
            words += self._words.push(token)
        words += self._words.finish() if is_padded else self._words.settle(stop)
        self._work += work + WorkCounters(detokenised_ids=len(tokens))
        self._state, self._frames, self._is_padded = state, stop, is_padded
        consumed = min((stop - 1) * FRAME_SAMPLES, self._buffer.end)
        self._buffer.trim(max(0, min(consumed + MEL_SAMPLES - MARGIN, self._buffer.end)))
        return Step(committed=tuple(words), consumed_samples=consumed)
