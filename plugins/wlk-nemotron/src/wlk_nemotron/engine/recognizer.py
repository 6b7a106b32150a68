"""The recognizer of a Nemotron stream: chunks of encoder frames in, words with times out."""

from __future__ import annotations

import math
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
    from wlk_nemotron.checkpoint import CheckpointConfig
    from wlk_nemotron.engine.words import EmittedToken

MAX_CALL_FRAMES = 64  # encoder frames per engine call; live audio is decoded chunk by chunk
TAIL_FRAMES = 5  # least silence after an utterance, in encoder frames, enough for its last token

FRAME_SAMPLES = 1280  # an encoder frame of 80 ms, which is eight mel frames
MEL_SAMPLES = 160  # samples between two mel frames: 10 ms
# A mel frame is a transform of 512 samples centred on it.  The window covers only 400 of them, so a
# frame can be computed before the last 56 have arrived.
MARGIN = 256
WINDOW_MARGIN = 200


class StreamState(Protocol):
    """The caches of encoder and transducer after a chunk, never changed in place."""

    @property
    def nbytes(self) -> int:
        """Bytes held on any device."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class ChunkRequest:
    """
    The next chunks of an utterance for the engine, which keeps no state of the stream.

    Attributes:
        audio: float32[160 m + 352] for m mel frames: 8 per encoder frame, and 7 fewer in the
            first chunk of an utterance.
        first_frame: number of the first encoder frame in the utterance.
        frames: number of encoder frames, a multiple of `chunk_frames`.
        chunk_frames: encoder frames per chunk; none attends to a later chunk.
        prompt: number of the prompt for the language.
        state: the state returned by the last call; None at the start of an utterance.

    """

    audio: NDArray[np.float32]
    first_frame: int
    frames: int
    chunk_frames: int
    prompt: int
    state: Any


#: the tokens in the order of their frames, the new state and the work of a request
ChunkAnswer: TypeAlias = "tuple[Sequence[EmittedToken], StreamState, WorkCounters]"


class NemotronRecognizer:
    """
    Recognise audio in chunks of encoder frames, each as long as the look-ahead.

    Chunks lie on a fixed grid from the start of the utterance, whatever the pieces in which audio
    arrives.  One call of `step` decodes the complete ones, up to MAX_CALL_FRAMES.  A complete
    utterance is padded with silence until all of its text is emitted.

    Args:
        decode: the engine call.
        checkpoint: what the checkpoint declares.
        chunk_frames: encoder frames per chunk.
        language: the code of the forced language; None to detect it.

    """

    def __init__(
        self,
        decode: Callable[[ChunkRequest], ChunkAnswer],
        *,
        checkpoint: CheckpointConfig,
        chunk_frames: int,
        language: str | None,
    ) -> None:
        self._decode = decode
        self._checkpoint = checkpoint
        self._chunk_frames = chunk_frames
        self._forced = language
        self._detected: str | None = None
        self._prompt = checkpoint.prompt(language)
        self._work = WorkCounters()
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The growing word, as far as it has been emitted."""
        pending = self._words.pending
        return () if pending is None else (pending,)

    @property
    def language(self) -> str | None:
        """The forced language, or that of the last tag that the model emitted."""
        return self._forced or self._detected

    @property
    def work(self) -> WorkCounters:
        """The total work of the engine."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and caches held."""
        return self._buffer.nbytes + (0 if self._state is None else self._state.nbytes)

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio to be decoded."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the complete chunks; if there are none and *is_last*, the rest of the audio."""
        if self._is_padded:
            return None
        # The last mel frame of encoder frame k is centred on its end, sample 1280 k.
        available = (self._buffer.end - WINDOW_MARGIN) // FRAME_SAMPLES + 1
        end = self._next_end(available)
        if end > self._frames:
            return self._commit(*self._decode_frames(self._frames, end, self._state), end=end)
        return self._decode_rest() if is_last else None

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; the model takes no text before it."""
        del committed_text
        self._buffer = AudioBuffer()
        self._words = WordAssembler(self._checkpoint.pieces)
        self._state: StreamState | None = None
        self._frames = 0  # encoder frames decoded so far
        self._is_padded = False

    def close(self) -> None:
        """Release audio, text and caches."""
        self.start_utterance("")

    def _next_end(self, available: int) -> int:
        """
        Return the end of the next call: complete chunks up to encoder frame *available*.

        The number of chunks is a power of two, so that the calls have few different shapes.
        """
        chunks = min(available - self._frames, MAX_CALL_FRAMES) // self._chunk_frames
        if chunks <= 0:
            return self._frames
        count = 1 << (chunks.bit_length() - 1)
        return self._frames + count * self._chunk_frames

    def _decode_rest(self) -> Step:
        """Decode the rest of a complete utterance, and silence after it; all of it or nothing."""
        audio_frames = math.ceil(self._buffer.end / FRAME_SAMPLES) + 1
        chunks = math.ceil((audio_frames + TAIL_FRAMES) / self._chunk_frames)
        end = chunks * self._chunk_frames
        most_frames = MAX_CALL_FRAMES // self._chunk_frames * self._chunk_frames
        start, state = self._frames, self._state
        tokens: list[EmittedToken] = []
        total = WorkCounters()
        while start < end:
            call_end = min(start + most_frames, end)
            emitted, state, work = self._decode_frames(start, call_end, state)
            tokens += emitted
            total += work
            start = call_end
        return self._commit(tokens, state, total, end=end, is_padded=True)

    def _decode_frames(self, start: int, end: int, state: StreamState | None) -> ChunkAnswer:
        """Decode encoder frames *start* to *end*; frame k has the mel frames 8 k - 7 to 8 k."""
        first = max(0, (start - 1) * FRAME_SAMPLES + MEL_SAMPLES)
        request = ChunkRequest(
            audio=self._audio(first - MARGIN, (end - 1) * FRAME_SAMPLES + MARGIN),
            first_frame=start,
            frames=end - start,
            chunk_frames=self._chunk_frames,
            prompt=self._prompt,
            state=state,
        )
        return self._decode(request)

    def _audio(self, start_sample: int, end_sample: int) -> NDArray[np.float32]:
        """Return these samples of the utterance, with zeros outside it."""
        audio = np.zeros(end_sample - start_sample, dtype=np.float32)
        first, end = max(start_sample, 0), min(end_sample, self._buffer.end)
        if first < end:
            audio[first - start_sample : end - start_sample] = self._buffer.view(first, end)
        return audio

    def _commit(
        self,
        tokens: Sequence[EmittedToken],
        state: StreamState | None,
        work: WorkCounters,
        *,
        end: int,
        is_padded: bool = False,
    ) -> Step:
        """Adopt the engine's output: commit its final words and drop the decoded audio."""
        words: list[Word] = []
        for token in tokens:
            self._detected = self._checkpoint.languages.get(token.id) or self._detected
            words += self._words.push(token)
        words += self._words.finish() if is_padded else self._words.settle(end)
        self._work += work + WorkCounters(detokenised_ids=len(tokens))
        self._state, self._frames, self._is_padded = state, end, is_padded
        consumed = min((end - 1) * FRAME_SAMPLES, self._buffer.end)
        self._buffer.trim(max(0, min(consumed + MEL_SAMPLES - MARGIN, self._buffer.end)))
        return Step(committed=tuple(words), consumed_samples=consumed)
