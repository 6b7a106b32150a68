"""Run a session on the audio of one source: a file, a pipe, a microphone or chunks of a caller."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from wlk_live.session.events import Event
    from wlk_live.session.session import Session

Read: TypeAlias = "Callable[[float], Sequence[Any] | None]"
"""
Return the pieces that came within some seconds, [] if none did, None at the end of the audio.

The seconds are 0 if the session has work, which a recording lets it do first.
"""

_WAIT_SECONDS = 0.1  # for audio of a live source, while there is nothing to decode


class Driver:
    """
    Read a source and step its session: the loop around every session that has one source.

    Before each step it takes what the source has by then; at the end of the source, and when the
    source fails, it ends the audio.  So everything before a failure is transcribed; the owner then
    reports `failure`.

    Args:
        session: a new session.
        read: the source; see `Read`, and `reading` for recordings.
        receive: called with each piece, by default `session.receive`.
        failures: what a source that fails raises.  Any other error is a defect, and raised at once.

    """

    def __init__(
        self,
        session: Session,
        read: Read,
        receive: Callable[[Any], object] | None = None,
        *,
        failures: tuple[type[Exception], ...] = (WLKError, OSError),
    ) -> None:
        self.session = session
        self.failure: Exception | None = None  #: why the source failed
        self._failures = failures
        self._read: Read | None = read  # None after the end of the audio
        self._receive = session.receive if receive is None else receive

    def run(self) -> Generator[list[Event]]:
        """Yield the events of each step, the last with the End; pause before a call is retried."""
        while not self.session.is_over:
            if self.session.retry_delay > 0:  # a sleep of no time takes 0.1 ms
                time.sleep(self.session.retry_delay)
            yield self.step()

    def step(self) -> list[Event]:
        """Take what the source has, then a step of the session; return what happened."""
        while self._read is not None:
            try:
                pieces = self._read(0.0 if self.session.has_work else _WAIT_SECONDS)
            except self._failures as error:
                self.failure, pieces = error, None
            if pieces is None:
                self.end()
            elif not pieces:
                break
            else:
                for piece in pieces:
                    self._receive(piece)
        return self.session.step()

    def end(self) -> None:
        """Read nothing more: the audio ends here."""
        self._read = None
        self.session.end_audio()


def reading(pieces: Iterable[Any]) -> Read:
    """Return a source that takes the next of *pieces* whenever the session has nothing to do."""
    remaining = iter(pieces)

    def read(seconds: float) -> Sequence[Any] | None:
        if seconds == 0:
            return ()
        piece = next(remaining, None)
        return None if piece is None else (piece,)

    return read
