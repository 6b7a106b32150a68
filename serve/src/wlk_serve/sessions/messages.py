"""What is sent to a client: the queue of its socket, and what is kept for one that lost it."""

from __future__ import annotations

import asyncio
from collections import deque
import json
from typing import TYPE_CHECKING, TypeAlias

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wlk_serve.protocols import Message

RESUME_SECONDS = 30  #: how long a session waits for its client
_MAX_KEPT_CHARACTERS = 4 << 20  # for a client that lost its socket
_MAX_MESSAGES = 4096  # that wait for a socket
_MAX_CHARACTERS = 1 << 20  # of them

Encoded: TypeAlias = "tuple[str | None, str]"  #: the type of a message, and its JSON text


def encoded(message: Message) -> Encoded:
    """Return *message* as it is sent."""
    return message.get("type"), json.dumps(message)


class SendQueue:
    """
    The messages that wait for one socket, in their order; one task takes them.

    A replaceable message that waits is replaced by a newer one of its type.  Nothing else is ever
    dropped: when too many messages or characters would wait, `is_full` becomes true and the socket
    is closed.  The *first* messages wait from the beginning, whatever their number and size.
    """

    def __init__(
        self, replaceable: Collection[str | None] = (), first: Iterable[Encoded] = ()
    ) -> None:
        self._replaceable = replaceable
        self._first = deque(first)
        self._messages: deque[Encoded] = deque()
        self._characters = 0  # of all but the first messages
        self._changed = asyncio.Event()
        self._is_closed = False
        self.is_full = False

    @property
    def is_crowded(self) -> bool:
        """Whether half of what may wait does; a client that causes it is not read meanwhile."""
        return not self._is_closed and len(self._messages) * 2 >= _MAX_MESSAGES

    def put(self, messages: Iterable[Encoded]) -> None:
        """Append *messages*; after `close`, or when it is full, they are dropped."""
        for kind, text in messages:
            if self._is_closed:
                return
            # A single message may have any length: the transcript of an hour is one.
            self.is_full = self.is_full or (
                len(self._messages) >= _MAX_MESSAGES or self._characters > _MAX_CHARACTERS
            )
            if self.is_full:
                break
            if kind in self._replaceable and self._messages and self._messages[-1][0] == kind:
                self._characters -= len(self._messages.pop()[1])
            self._messages.append((kind, text))
            self._characters += len(text)
        self._changed.set()

    def close(self, *, drops: bool = False) -> None:
        """Let `get` end after the messages that wait, or at once."""
        if drops:
            self._first.clear()
            self._messages.clear()
        self._is_closed = True
        self._changed.set()

    async def get(self) -> str | None:
        """Return the next message; None when it is full, or closed and empty."""
        while not self.is_full:
            if self._first:
                return self._first.popleft()[1]
            if self._messages:
                _, text = self._messages.popleft()
                self._characters -= len(text)
                return text
            if self._is_closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return None


class ResumeLog:
    """
    The numbered messages of one session, and what arrived from its client.

    A plain object without sockets and clocks.  It keeps the newest messages of up to 4 MiB of JSON,
    and none that a newer one replaces soon.
    """

    def __init__(self, token: str, replaceable: Collection[str | None] = ()) -> None:
        self.token = token  #: what a client names to resume the session
        self.characters = 0  #: of JSON that are kept
        self._replaceable = replaceable
        self._last = 0  # number of the newest message
        self._kept_after = 0  # every irreplaceable message with a higher number is kept
        self._kept: deque[tuple[int, Encoded]] = deque()
        self._received_messages = 0
        self._acknowledged_samples = 0

    def number(self, messages: Iterable[Message]) -> list[Encoded]:
        """Return *messages* with their numbers, and keep them."""
        numbered = []
        for message in messages:
            self._last += 1
            kind, text = encoded({**message, "wlk_seq": self._last})
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
        Count a message of the client; return an unnumbered acknowledgement for a second of audio.

        So many *samples* have arrived since the session began, of *rate* a second.
        """
        self._received_messages += 1
        if samples - self._acknowledged_samples < rate:
            return []
        self._acknowledged_samples = samples
        return [{"type": "wlk.ack", "samples": samples, "messages": self._received_messages}]

    def resume(self, last: int, samples: int) -> list[Encoded]:
        """
        Return what a client misses that has received the messages up to number *last*, 0 for none.

        So many *samples* have arrived since the session began.

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
        return [encoded(resumed), *missed]


def resume_expired(message: str) -> RequestError:
    """Return the error of a session that cannot be resumed."""
    return RequestError(message, status=404, code="resume_expired", param="wlk_resume")
