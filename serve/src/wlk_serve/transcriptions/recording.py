"""An uploaded recording as a session that a scheduler steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import End, Failure
from wlk_serve.errors import RequestError, as_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.session import Session
    from wlk_core.session.events import Event

__all__ = ["RecordingSession"]

_MAX_WAITING = 100  # steps whose events nobody has read; a reader may be slower than the engine


class RecordingSession:
    """
    A session that takes its audio from a recording, for a scheduler.

    A step either makes a call of the session, or decodes a second of audio where it waits for some.
    The audio before a damaged part is transcribed before the failure.  *use* is called with the
    seconds of each piece, and may raise RequestError.
    """

    audio_time = backlog_seconds = 0.0  # nothing of it is ever due
    is_ending_utterance = False

    def __init__(
        self,
        session: Session,
        pieces: Generator[NDArray[np.float32]],
        use: Callable[[float], object],
    ) -> None:
        self._session = session
        self._pieces = pieces
        self._use = use
        self._failure: WLKError | None = None
        self._given = 0  # steps with events
        self.taken = 0  #: of them, those whose events were read; counted by the reader alone

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""
        return self._session.is_over

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now: there is audio, and its events are read."""
        return not self._session.is_over and self._given - self.taken < _MAX_WAITING

    def step(self) -> list[Event]:
        """Make the next step; a failure of the recording comes in place of the End."""
        if not self._session.has_work:
            self._read()
        events = [
            Failure(self._failure, True, event.audio_time)
            if self._failure is not None and isinstance(event, End)
            else event
            for event in self._session.step()
        ]
        self._given += bool(events)  # a step without events is not published
        return events

    def fail(self, error: WLKError) -> list[Event]:
        """End the session because of *error*; return its last events."""
        return self._session.fail(error)

    def close(self) -> None:
        """Close the recording."""
        self._pieces.close()

    def _read(self) -> None:
        samples = 0
        try:
            while samples < SAMPLE_RATE:
                piece = next(self._pieces, None)
                if piece is None:
                    self._session.end_audio()
                    return
                self._use(len(piece) / SAMPLE_RATE)
                self._session.receive(piece)
                samples += len(piece)
        except (AudioFormatError, OSError, RequestError) as error:
            self._failure = as_failure(error)
            self._session.end_audio()
