"""A session of wlk_live that the scheduler steps, for the audio of one client."""

from __future__ import annotations

from collections import deque
import time
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    import numpy as np
    from numpy.typing import NDArray


@attrs.define(eq=False)
class ServedStream:
    """
    A session that a scheduler steps, and the *parts* to close with it.

    The first call of `close` passes `release` to *close_later*, which calls it in a thread.
    """

    session: Any
    parts: ExitStack
    _close_later: Callable[[Callable[[], object]], object]
    #: Tells the scheduler that the session has received something.
    notify: Callable[[], object] = attrs.field(init=False, default=lambda: None)
    #: Times of the commits whose endpoints have not come yet.
    commit_times: deque[float] = attrs.field(init=False, factory=deque)
    _is_closed: bool = attrs.field(init=False, default=False)

    @property
    def backlog_seconds(self) -> float:
        """Seconds of audio received and not yet decoded."""
        return 0.0 if self._is_closed else self.session.backlog_seconds

    def receive(self, audio: NDArray[np.float32]) -> None:
        """Append audio, at the rate that the session was opened with."""
        self.session.receive(audio)
        self.notify()

    def skip(self, seconds: float) -> None:
        """Declare that *seconds* of audio were not captured."""
        self.session.skip(seconds)
        self.notify()

    def commit(self) -> None:
        """End the utterance."""
        self.session.commit()
        self.commit_times.append(time.monotonic())
        self.notify()

    def mark(self, name: str) -> None:
        """Request a `Marked` event once all audio so far is decoded."""
        self.session.mark(name)
        self.notify()

    def end_audio(self) -> None:
        """Declare that no more audio will come."""
        self.session.end_audio()
        self.notify()

    def close(self) -> None:
        """Drop audio that is not transcribed yet; a running engine call ends by itself."""
        if not self._is_closed:
            self._is_closed = True
            self._close_later(self.release)

    def release(self) -> None:
        """Close every part after the running step; an error of one is raised after the others."""
        self._is_closed = True
        try:
            self.parts.close()
        finally:
            # This object is in reference cycles, which Python collects late, because it does not
            # count the native memory of the model and of the detector.
            del self.session, self.notify
