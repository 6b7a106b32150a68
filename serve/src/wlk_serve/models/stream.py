"""A session of wlk_live that reads an uploaded recording, for the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.audio import sealed
from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import rechunk
from wlk_live.session import End, Failure
from wlk_live.session.driver import Driver, reading
from wlk_live.session.session import Pending
from wlk_serve.errors import as_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.errors import WLKError
    from wlk_live.session import Session
    from wlk_live.session.events import Event


class RecordingSession:
    """
    A session that reads its audio from a recording, for a scheduler.

    If the session waits for audio, a step first decodes a second of the recording.  Audio before a
    damaged part is transcribed before the failure is reported.  *use* is called with the seconds of
    each decoded piece, and may raise RequestError.  While *has_room* is false, there is no work.
    """

    def __init__(
        self,
        session: Session,
        pieces: Iterable[NDArray[np.float32]],
        use: Callable[[float], object],
        has_room: Callable[[], bool],
    ) -> None:
        def used() -> Iterator[NDArray[np.float32]]:
            for piece in pieces:
                use(len(piece) / SAMPLE_RATE)
                yield piece

        chunks = map(sealed, rechunk(used(), SAMPLE_RATE))  # validated by the decoder
        self._session = session
        self._driver = Driver(session, reading(chunks))
        self._has_room = has_room

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""
        return self._session.is_over

    @property
    def pending(self) -> Pending | None:
        """What the next step is about, without a deadline; None if it would do nothing now."""
        if self._session.is_over or not self._has_room():
            return None
        return Pending(retry_delay=self._session.retry_delay)

    def step(self) -> list[Event]:
        """Run the next step; if reading the recording failed, a Failure replaces the End."""
        events, failure = self._driver.step(), self._driver.failure
        if failure is None:
            return events
        return [
            Failure(as_failure(failure), True, event.audio_time)
            if isinstance(event, End)
            else event
            for event in events
        ]

    def fail(self, error: WLKError) -> list[Event]:
        """End the session because of *error*; return its last events."""
        return self._session.fail(error)
