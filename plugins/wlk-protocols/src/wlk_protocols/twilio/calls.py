"""Tell those who follow a call what is said in it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, Protocol

import attrs

from wlk_serve.protocols import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wlk_live.session import Event
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

INTERIM, FINAL, STARTED, ENDED, ERROR = (
    f"call.{kind}" for kind in ("interim", "final", "started", "ended", "error")
)
# What those who follow a call later get, and how many messages; an hour has some hundreds.
_KEPT, _MAX_KEPT = {STARTED, FINAL}, 1000


class MediaStream(Protocol):
    """A media stream of a call."""

    @property
    def is_over(self) -> bool:
        """Whether no words will come any more."""


@attrs.define(eq=False)
class Call:
    """A call, its media streams that are not over, and what was said in it."""

    streams: list[MediaStream] = attrs.field(factory=list)
    kept: deque[Message] = attrs.field(factory=lambda: deque(maxlen=_MAX_KEPT))


class Calls:
    """The running calls of one client of the server, by their `callSid`, and their followers."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._followers: list[FollowerProtocol] = []

    def begin(self, call_sid: str, stream: MediaStream) -> None:
        """Add a media stream to a call."""
        for sid, call in [*self._calls.items()]:  # a session that failed does not report its end
            for old in [each for each in call.streams if each.is_over]:
                self.end(sid, old)
        self._calls.setdefault(call_sid, Call()).streams.append(stream)

    def publish(self, call_sid: str, messages: Sequence[Message]) -> None:
        """Send *messages* to the followers of a call."""
        if not messages:  # as of most media
            return
        call = self._calls.get(call_sid)
        if call is not None:
            call.kept += [each for each in messages if each["type"] in _KEPT]
        for follower in self._followers:
            if follower.call_sid in {None, call_sid}:
                follower.info.send(messages)

    def end(self, call_sid: str, stream: MediaStream) -> None:
        """Remove a media stream of a call, if it is there; the last one ends its followers."""
        call = self._calls.get(call_sid)
        if call is None or stream not in call.streams:
            return
        call.streams.remove(stream)
        if not call.streams:
            del self._calls[call_sid]
            for follower in [each for each in self._followers if each.call_sid == call_sid]:
                follower.end()
                follower.info.send(())

    def follow(self, follower: FollowerProtocol) -> list[Message]:
        """Add a follower; return what it has missed of the calls that it follows."""
        self._followers = [*(each for each in self._followers if not each.is_over), follower]
        followed = (call for sid, call in self._calls.items() if follower.call_sid in {None, sid})
        return [message for call in followed for message in call.kept]


class FollowerProtocol:
    """
    A `ClientProtocol` that sends what is said in one call, until it ends, or in all calls.

    A call that has not begun is waited for.  Nothing is expected from the client.
    """

    replaceable: ClassVar[Collection[str | None]] = {INTERIM}

    def __init__(
        self, audio: SessionAudio, info: SessionInfo, calls: Calls, call_sid: str | None
    ) -> None:
        self.info = info
        self.call_sid = call_sid
        self._audio = audio
        self._calls = calls

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._audio.is_over

    def begin(self) -> list[Message]:
        """Return what was said so far."""
        return self._calls.follow(self)

    def receive(self, _data: str | bytes) -> list[Message]:
        """Refuse the message."""
        raise RequestError("expected no message: this socket only sends", code="unknown_event")

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message."""
        return [{"type": ERROR, "error": error.record()}]

    def handle(self, _event: Event | SegmentEnd) -> list[Message]:
        """Return nothing: there is no audio."""
        return []

    def end(self) -> list[Message]:
        """End, as the call or the server does."""
        self._audio.end()
        return []
