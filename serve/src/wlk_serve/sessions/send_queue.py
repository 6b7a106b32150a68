"""The messages that wait for one socket: bounded, and written by one task."""

from __future__ import annotations

import asyncio
from collections import deque
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["SendQueue"]

_MAX_MESSAGES = 4096
_MAX_CHARACTERS = 1 << 20


class SendQueue:
    """
    Messages in their order, as JSON text.

    A replaceable message that waits is replaced by a newer one of its type.  Nothing else is ever
    dropped: when a message would follow `max_messages`, or more than `max_characters`, `is_full`
    becomes true and the socket is closed.

    Args:
        replaceable: types of messages that are.
        first: messages that wait from the beginning, whatever their number and size.
        max_messages: how many messages may wait.
        max_characters: how many characters may wait before another message.

    """

    def __init__(
        self,
        replaceable: Collection[str | None] = (),
        first: Iterable[dict[str, Any]] = (),
        *,
        max_messages: int = _MAX_MESSAGES,
        max_characters: int = _MAX_CHARACTERS,
    ) -> None:
        self._replaceable = replaceable
        self._max_messages = max_messages
        self._max_characters = max_characters
        self._messages: deque[tuple[str | None, str]] = deque()  # type, JSON text
        self._characters = 0  # of all but the first messages
        self._first = deque(first)
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_closed = False
        self.is_full = False
        self.close_code: int | None = None  #: of `close_with`

    def put(self, messages: list[dict[str, Any]]) -> None:
        """Append *messages*; after `close`, or when it is full, they are dropped."""
        for message in messages:
            if self._is_closed:
                return
            self.is_full = self.is_full or (
                len(self._messages) >= self._max_messages or self._characters > self._max_characters
            )
            if self.is_full:
                self._taken.set()
                break
            kind = message.get("type")
            if kind in self._replaceable and self._messages and self._messages[-1][0] == kind:
                self._characters -= len(self._messages.pop()[1])
            text = json.dumps(message)
            self._messages.append((kind, text))
            self._characters += len(text)
        self._changed.set()

    def close(self) -> None:
        """Let `get` end after the messages that wait."""
        self._is_closed = True
        self._changed.set()
        self._taken.set()

    def close_with(self, code: int) -> None:
        """Let `get` end at once, and the socket close with *code*."""
        self.close_code = code
        self._first.clear()
        self._messages.clear()
        self.close()

    async def room(self) -> None:
        """
        Wait until fewer than half of `max_messages` wait, or the queue is closed or full.

        A client that causes messages is not read before: so it cannot fill the queue by itself.
        """
        while len(self._messages) * 2 >= self._max_messages and not (
            self._is_closed or self.is_full
        ):
            self._taken.clear()
            await self._taken.wait()

    async def get(self) -> str | None:
        """Return the next message; None when it is full, or closed and empty."""
        while not self.is_full:
            if self._first:
                return json.dumps(self._first.popleft())
            if self._messages:
                _, text = self._messages.popleft()
                self._characters -= len(text)
                self._taken.set()
                return text
            if self._is_closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return None
