"""Decode utterances at a server: send them on a grid of samples, and keep their audio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE, Step, WorkCounters
from wlk_core.streaming import AudioBuffer
from wlk_realtime.engine.requests import Decoded, Request, ServerProgress, SessionConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import Word

CELL_SAMPLES = 1280  # 80 ms: audio is sent in whole steps of natively streaming models
PIECE_SAMPLES = 50 * CELL_SAMPLES  # 4 s, so that a request is short
# Audio that was decoded is kept for a connection that is lost: LocalAgreement decodes the last 30 s
# at most, so that no more is needed to continue.
KEPT_SECONDS = 30
KEPT_GRID_SAMPLES = 2 * SAMPLE_RATE  # 2 s: whole ticks of a second and whole cells of 80 ms
_MAX_PROMPT_CHARACTERS = 400


class RemoteRecognizer:
    """
    Decode utterances at a server.

    Audio is kept until the server has decoded it, and KEPT_SECONDS longer.  So another session can
    go on where a lost one ended.

    Args:
        ask: makes a request of this stream; after a BackendError the same one may be made again.
        close: ends its connection.
        config: how its session is opened.
        takes_prompt: whether the server takes text before the audio.
        can_force: whether the server can be forced to a language.

    """

    def __init__(
        self,
        ask: Callable[[Request], Decoded],
        close: Callable[[], None],
        *,
        config: SessionConfig,
        takes_prompt: bool,
        can_force: bool,
    ) -> None:
        self._ask = ask
        self._close = close
        self._config = config
        self._takes_prompt = takes_prompt
        self._can_force = can_force
        self._language = config.language
        self._utterance = -1
        self._progress = ServerProgress()
        self._work = WorkCounters()
        self._earlier_work = WorkCounters()  # of connections that were lost
        self._misplaced = 0  # words that the connection has counted
        self._remote_bytes = 0
        self._is_closed = False
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words that may still change, in seconds of the utterance."""
        return self._hypothesis

    @property
    def language(self) -> str | None:
        """The language forced or detected."""
        return self._language

    @property
    def work(self) -> WorkCounters:
        """The work that the server has counted."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio kept here and of state at the server."""
        return 0 if self._is_closed else self._buffer.nbytes + self._remote_bytes

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the utterance."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Let the server decode the next piece, or the end of a complete utterance."""
        end = self._buffer.end
        stop = end if is_last else end - end % CELL_SAMPLES
        stop = min(stop, self._sent + PIECE_SAMPLES)
        is_flush = is_last and stop == end
        if stop <= self._sent and not (is_flush and not self._is_flushed):
            return None
        request = Request(
            utterance=self._utterance,
            first=self._buffer.start,
            stop=stop,
            is_last=is_flush,
            audio=self._buffer.view,
            progress=self._progress,
            tail=self._tail,
            config=self._session_config(),
        )
        return self._apply(self._ask(request), request)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; the session at the server goes on."""
        self._utterance += 1
        self._buffer = AudioBuffer()
        self._sent = 0
        self._is_flushed = False
        self._tail: tuple[Word, ...] = ()
        self._hypothesis: tuple[Word, ...] = ()
        self._text = committed_text

    def close(self) -> None:
        """End the connection."""
        self._is_closed = True
        self._close()

    def _session_config(self) -> SessionConfig:
        """Return how a session is opened that goes on here."""
        text = f"{self._config.prompt} {self._text}".strip()[-_MAX_PROMPT_CHARACTERS:]
        return SessionConfig(
            language=self._language if self._can_force else self._config.language,
            prompt=text if self._takes_prompt else "",
        )

    def _apply(self, decoded: Decoded, request: Request) -> Step:
        if decoded.progress.connection != self._progress.connection:
            self._earlier_work, self._misplaced = self._work, 0
        misplaced = max(0, decoded.misplaced_words - self._misplaced)
        self._misplaced = decoded.misplaced_words
        self._work = self._earlier_work + decoded.work
        self._progress = decoded.progress
        self._sent, self._is_flushed = request.stop, request.is_last
        self._language = decoded.language or self._language
        self._remote_bytes = decoded.state_bytes or 0
        self._hypothesis = decoded.hypothesis
        if decoded.words:
            end = decoded.words[-1].end
            self._tail = tuple(w for w in (*self._tail, *decoded.words) if w.end >= end)
        kept = decoded.processed_samples - KEPT_SECONDS * SAMPLE_RATE
        self._buffer.trim(max(0, kept - kept % KEPT_GRID_SAMPLES))
        return Step(
            committed=decoded.words,
            consumed_samples=decoded.processed_samples,
            misplaced_words=misplaced,
        )
