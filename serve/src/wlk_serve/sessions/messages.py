"""Queue the messages to a client, and keep them for a client that lost its socket."""

from __future__ import annotations

import asyncio
from collections import deque
import json
from typing import TYPE_CHECKING, TypeAlias

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wlk_serve.protocols.routes import Message

RESUME_SECONDS = 30  #: how long a session waits for a client that lost its socket
_MAX_KEPT_CHARACTERS = 4 << 20  # of JSON that a session keeps for its client to resume
_MAX_MESSAGES = 4096  # waiting for one socket
_MAX_CHARACTERS = 1 << 20  # waiting for one socket

Encoded: TypeAlias = "tuple[str | None, str]"  #: a message's type and its JSON


def encode(message: Message) -> Encoded:
    """Return the type of *message* and its JSON."""
    return message.get("type"), json.dumps(message)


class SendQueue:
    """
    The messages that wait for one socket, in order; a single task takes them.

    If the newest waiting message is replaceable, a new message of the same type replaces it.
    Nothing else is ever dropped: when too many messages or characters would wait, `is_full` becomes
    true and the socket is closed.  The limits do not apply to the *first* messages.
    """

    def __init__(
        self, replaceable: Collection[str | None] = (), first: Iterable[Encoded] = ()
    ) -> None:
        self._replaceable = replaceable
        self._first = deque(first)
        self._messages: deque[Encoded] = deque()
        self._characters = 0  # in all waiting messages but the first ones
        self._changed = asyncio.Event()
        #: Whether less than half of the queue is used; else the client's messages are not read.
        self.has_room = asyncio.Event()
        self.has_room.set()
        self._is_closed = False
        self.is_full = False

    def put(self, messages: Iterable[Encoded]) -> None:
        """Append *messages*; a queue that is closed or full drops them."""
        for kind, text in messages:
            if self._is_closed:
                return
            # A single message can have any length: the transcript of an hour is one message.
            self.is_full = self.is_full or (
                len(self._messages) >= _MAX_MESSAGES or self._characters > _MAX_CHARACTERS
            )
            if self.is_full:
                break
            if kind in self._replaceable and self._messages and self._messages[-1][0] == kind:
                self._characters -= len(self._messages.pop()[1])
            self._messages.append((kind, text))
            self._characters += len(text)
            if len(self._messages) * 2 >= _MAX_MESSAGES:
                self.has_room.clear()
        self._changed.set()

    def close(self, *, drops: bool = False) -> None:
        """Let `get` end after the waiting messages, or at once if they are dropped."""
        if drops:
            self._first.clear()
            self._messages.clear()
        self._is_closed = True
        self._changed.set()
        self.has_room.set()

    async def get(self) -> str | None:
        """Wait for the next message; return None if the queue is full, or closed and empty."""
        while not self.is_full:
            if self._first:
                return self._first.popleft()[1]
            if self._messages:
                _, text = self._messages.popleft()
                self._characters -= len(text)
                if len(self._messages) * 2 < _MAX_MESSAGES:
                    self.has_room.set()
                return text
            if self._is_closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return None


class ResumeLog:
    """
    The numbered messages of one session, and how much has arrived from its client.

    A plain object without sockets or clocks.  It keeps the newest messages, up to 4 MiB of JSON,
    except those of a replaceable type.
    """

    def __init__(self, token: str, replaceable: Collection[str | None] = ()) -> None:
        self.token = token  #: a client presents it to resume the session
        self.characters = 0  #: of JSON in the kept messages
        self._replaceable = replaceable
        self._last = 0  # number of the newest message
        self._kept_after = 0  # every message with a higher number is kept, unless replaceable
        self._kept: deque[tuple[int, Encoded]] = deque()
        self._received_messages = 0
        self._acknowledged_samples = 0

    def number(self, messages: Iterable[Message]) -> list[Encoded]:
        """Keep *messages* and return them encoded, with their numbers."""
        numbered = []
        for message in messages:
            self._last += 1
            kind, text = encode({**message, "wlk_seq": self._last})
            numbered.append((kind, text))
            if kind not in self._replaceable:
                self._kept.append((self._last, (kind, text)))
                self.characters += len(text)
            while self.characters > _MAX_KEPT_CHARACTERS:
                self._kept_after, (_, dropped) = self._kept.popleft()
                self.characters -= len(dropped)
        return numbered

    def acknowledge(self, samples: int, rate: int) -> list[Message]:
        """
        Count a message of the client; return an unnumbered acknowledgement per second of audio.

        *samples* counts the samples since the session began, at *rate* samples per second.
        """
        self._received_messages += 1
        if samples - self._acknowledged_samples < rate:
            return []
        self._acknowledged_samples = samples
        return [{"type": "wlk.ack", "samples": samples, "messages": self._received_messages}]

    def resume(self, last: int, samples: int) -> list[Encoded]:
        """
        Return `session.resumed` and the kept messages after number *last*; 0 asks for all of them.

        *samples* counts the samples received since the session began.

        Raises:
            RequestError: a message after *last* is no longer kept, or *last* was never sent.

        """
        if not self._kept_after <= last <= self._last:
            raise resume_expired(f"the events after number {last} are not kept; open a new session")
        self._acknowledged_samples = samples
        resumed = {
            "type": "session.resumed",
            "samples": samples,
            "messages": self._received_messages,
            "wlk_seq": last,
        }
        missed = (message for number, message in self._kept if number > last)
        return [encode(resumed), *missed]


def resume_expired(message: str) -> RequestError:
    """Return the error for a session that cannot be resumed."""
    return RequestError(message, status=404, code="resume_expired", param="wlk_resume")
