"""The recognizer of a Nemotron stream: chunks of encoder frames in, words with times out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_frameworks.grid import FrameGrid, GridRecognizer
from wlk_nemotron.engine.words import EmittedToken, WordAssembler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming import Word
    from wlk_nemotron.checkpoint import CheckpointConfig

MAX_CALL_FRAMES = 64  # encoder frames per engine call; live audio is decoded chunk by chunk
FRAME_SAMPLES = 1280  # an encoder frame of 80 ms, which is eight mel frames
MEL_SAMPLES = 160  # samples between two mel frames: 10 ms
# A mel frame is a transform of 512 samples centred on it.  The window covers only 400 of them, so a
# frame can be computed before the last 56 have arrived.
MARGIN = 256
WINDOW_MARGIN = 200
FIRST_MELS = 7  # mel frames that the first encoder frame of an utterance lacks

# The last mel frame of an encoder frame is centred on its end.  The first encoder frame has only
# that one, which is centred on the start of the utterance, so the grid numbers it -1.
GRID = FrameGrid(
    frame_samples=FRAME_SAMPLES,
    first_frame=-1,
    before_samples=MARGIN - MEL_SAMPLES,
    after_samples=WINDOW_MARGIN,
    max_call_frames=MAX_CALL_FRAMES,
    has_few_shapes=True,
    tail_frames=5,  # enough for the last token of an utterance
)


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


class NemotronWords:
    """The words of a Nemotron stream and its language, which tags name; see FrameWords."""

    def __init__(self, checkpoint: CheckpointConfig, *, language: str | None) -> None:
        self._checkpoint = checkpoint
        self._forced = language
        self._detected: str | None = None
        self.nbytes = 0
        self.start_utterance()

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The growing word, as far as it has been emitted."""
        pending = self._assembler.pending
        return () if pending is None else (pending,)

    @property
    def language(self) -> str | None:
        """The forced language, or that of the last tag that the model emitted."""
        return self._forced or self._detected

    def start_utterance(self) -> None:
        """Begin an utterance; the detected language stays."""
        self._assembler = WordAssembler(self._checkpoint.pieces)

    def is_emitting(self, tokens: Sequence[EmittedToken]) -> bool:
        """Return False: the tail is enough for the last token of any word."""
        del tokens
        return False

    def push(
        self,
        tokens: Sequence[EmittedToken],
        audio: NDArray[np.float32],
        *,
        end_frame: int,
        is_last: bool,
    ) -> list[Word]:
        """Take the next tokens; see FrameWords."""
        del audio
        assembler, detected = copy.copy(self._assembler), self._detected
        words: list[Word] = []
        for token in tokens:
            detected = self._checkpoint.languages.get(token.id) or detected
            words += assembler.push(token)
        words += assembler.finish() if is_last else assembler.settle(end_frame + 1)
        self._assembler, self._detected = assembler, detected
        return words


def nemotron_recognizer(
    decode: Callable[[ChunkRequest], ChunkAnswer],
    *,
    checkpoint: CheckpointConfig,
    chunk_frames: int,
    language: str | None,
) -> GridRecognizer[EmittedToken]:
    """
    Return a recognizer that decodes chunks of encoder frames, each as long as the look-ahead.

    Args:
        decode: the engine call.
        checkpoint: what the checkpoint declares.
        chunk_frames: encoder frames per chunk.
        language: the code of the forced language; None to detect it.

    """
    prompt = checkpoint.prompt(language)

    def decode_frames(
        audio: NDArray[np.float32], state: StreamState | None, *, first_frame: int
    ) -> ChunkAnswer:
        frames = (len(audio) - GRID.before_samples - GRID.after_samples) // FRAME_SAMPLES
        audio = np.pad(audio, (0, MARGIN - WINDOW_MARGIN))
        tokens, state, work = decode(
            ChunkRequest(
                audio=audio[FIRST_MELS * MEL_SAMPLES :] if state is None else audio,
                first_frame=first_frame - GRID.first_frame,
                frames=frames,
                chunk_frames=chunk_frames,
                prompt=prompt,
                state=state,
            )
        )
        return tokens, state, work + WorkCounters(detokenised_ids=len(tokens))

    words = NemotronWords(checkpoint, language=language)
    return GridRecognizer(decode_frames, words, attrs.evolve(GRID, chunk_frames=chunk_frames))
