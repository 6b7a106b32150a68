"""Decode utterances at a server: send whole steps of audio, and keep it to resend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import SAMPLE_RATE, Step, WorkCounters
from wlk_core.streaming import AudioBuffer
from wlk_realtime.engine.pieces import STEP_SAMPLES
from wlk_realtime.engine.requests import Decoded, Request, ServerProgress, SessionConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import Word

_MAX_REQUEST_SAMPLES = 50 * STEP_SAMPLES  # 4 s, to keep requests short
# Decoded audio is kept to resend it after a lost connection.  LocalAgreement decodes at most the
# last 30 s, so a new session needs no more.
KEPT_SECONDS = 30
_KEPT_GRID_SAMPLES = 2 * SAMPLE_RATE  # 2 s: a multiple of 1 s ticks and of 80 ms steps
_MAX_PROMPT_CHARACTERS = 400


class RemoteRecognizer:
    """
    Decode utterances at a server.

    All audio that the server has yet to decode is kept, and KEPT_SECONDS before it, so that a new
    session can continue after a lost connection.

    Args:
        ask: makes a request of this stream; after a BackendError, the same request can be repeated.
        close: closes the connection of this stream.
        config: how to open its session.
        takes_prompt: whether the server accepts a prompt.
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
        self._earlier_work = WorkCounters()  # of lost connections
        self._misplaced = 0  # words counted over the current connection
        self._remote_bytes = 0
        self._is_closed = False
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The words that may still change, in seconds since the start of the utterance."""
        return self._hypothesis

    @property
    def language(self) -> str | None:
        """The forced or detected language."""
        return self._language

    @property
    def work(self) -> WorkCounters:
        """The work counters of the server, for all connections of this stream."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio kept here and of state at the server."""
        return 0 if self._is_closed else self._buffer.nbytes + self._remote_bytes

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the utterance."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Have the server decode the next audio; return None if nothing is left to send."""
        end = self._buffer.end
        complete = end if is_last else end - end % STEP_SAMPLES
        request_end = min(complete, self._sent + _MAX_REQUEST_SAMPLES)
        is_flush = is_last and request_end == end
        has_audio = request_end > self._sent
        if not has_audio and (self._is_flushed or not is_flush):
            return None
        request = Request(
            utterance=self._utterance,
            first_sample=self._buffer.start,
            end_sample=request_end,
            is_last=is_flush,
            audio=self._buffer.view,
            progress=self._progress,
            tail=self._tail,
            config=self._session_config(),
        )
        return self._apply(self._ask(request), request)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance in the same session at the server."""
        self._utterance += 1
        self._buffer = AudioBuffer()
        self._sent = 0
        self._is_flushed = False
        self._tail: tuple[Word, ...] = ()
        self._hypothesis: tuple[Word, ...] = ()
        self._text = committed_text

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        self._close()

    def _session_config(self) -> SessionConfig:
        """Return the configuration of a session that would continue at this point."""
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
        self._sent, self._is_flushed = request.end_sample, request.is_last
        self._language = decoded.language or self._language
        self._remote_bytes = decoded.state_bytes or 0
        self._hypothesis = decoded.hypothesis
        if decoded.words:
            end = decoded.words[-1].end
            self._tail = tuple(word for word in (*self._tail, *decoded.words) if word.end >= end)
        kept = decoded.processed_samples - KEPT_SECONDS * SAMPLE_RATE
        self._buffer.trim(max(0, kept - kept % _KEPT_GRID_SAMPLES))
        return Step(
            committed=decoded.words,
            consumed_samples=decoded.processed_samples,
            misplaced_words=misplaced,
        )
