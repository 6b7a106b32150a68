"""A session of wlk_live that reads an uploaded recording, for the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_live.session import End, Failure
from wlk_serve.errors import RequestError, as_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_live.session import Session
    from wlk_live.session.events import Event


@attrs.define(eq=False)
class RecordingSession:
    """
    A session that reads its audio from a recording, for a scheduler.

    If the session waits for audio, a step first decodes a second of the recording.  Audio before a
    damaged part is transcribed before the failure is reported.  *use* is called with the seconds of
    each decoded piece, and may raise RequestError.  While *has_room* is false, there is no work.
    """

    _session: Session
    _pieces: Generator[NDArray[np.float32]]
    _use: Callable[[float], object]
    _has_room: Callable[[], bool]
    _failure: WLKError | None = attrs.field(init=False, default=None)
    # A recording has no deadlines.
    audio_time: ClassVar = 0.0
    backlog_seconds: ClassVar = 0.0
    is_ending_utterance: ClassVar = False

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""
        return self._session.is_over

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now."""
        return not self._session.is_over and self._has_room()

    @property
    def retry_delay(self) -> float:
        """Seconds to wait before the next step, because the last one failed; otherwise 0."""
        return self._session.retry_delay

    def step(self) -> list[Event]:
        """Run the next step; if reading the recording failed, a Failure replaces the End."""
        if not self._session.has_work:
            self._read()
        return [
            Failure(self._failure, True, event.audio_time)
            if self._failure is not None and isinstance(event, End)
            else event
            for event in self._session.step()
        ]

    def fail(self, error: WLKError) -> list[Event]:
        """End the session because of *error*; return its last events."""
        return self._session.fail(error)

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
