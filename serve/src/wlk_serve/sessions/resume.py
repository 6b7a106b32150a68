"""What a session keeps so that a client that lost its socket misses nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError, invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from wlk_serve.sessions.protocol import Message

__all__ = ["RESUME_SECONDS", "ResumeLog", "parse_last_seq", "resume_expired"]

RESUME_SECONDS = 30  #: how long a session waits for its client
_MAX_CHARACTERS = 4 << 20
_MAX_DIGITS = 18


class ResumeLog:
    """
    The numbered messages of one session, and what arrived from its client.

    A plain object without sockets and clocks.  Of the replaceable types it keeps the newest
    message alone; of all others the newest ones of up to *max_characters* of JSON.

    Args:
        token: what a client names to resume the session.
        replaceable: types of messages of which only the newest matters.
        max_characters: how much is kept.

    """

    def __init__(
        self,
        token: str,
        replaceable: Collection[str | None] = (),
        *,
        max_characters: int = _MAX_CHARACTERS,
    ) -> None:
        self.token = token
        self._replaceable = replaceable
        self._max_characters = max_characters
        self._last = 0  # number of the newest message
        self._kept_after = 0  # every irreplaceable message with a higher number is kept
        self._messages: dict[int, tuple[str | None, Message, int]] = {}  # kind, message, characters
        self._newest: dict[str | None, int] = {}  # number of the newest message of each kind
        self._characters = 0
        self._received_messages = 0
        self._acknowledged_samples = 0

    @property
    def characters(self) -> int:
        """How many characters of JSON are kept."""
        return self._characters

    def number(self, messages: Iterable[Message]) -> list[Message]:
        """Return *messages* with their numbers, and keep them."""
        return [self._keep(message) for message in messages]

    def acknowledge(self, samples: int, rate: int) -> list[Message]:
        """
        Count a message of the client; return an unnumbered acknowledgement for a second of audio.

        Args:
            samples: how many samples arrived since the session began.
            rate: samples a second.

        """
        self._received_messages += 1
        if samples - self._acknowledged_samples < rate:
            return []
        self._acknowledged_samples = samples
        return [{"type": "wlk.ack", "samples": samples, "messages": self._received_messages}]

    def resume(self, last: int, samples: int) -> list[Message]:
        """
        Return what a client misses that has received the messages up to number *last*.

        Args:
            last: number of the last message that the client received, 0 for none.
            samples: how many samples arrived since the session began.

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
        missed = [message for number, (_, message, _) in self._messages.items() if number > last]
        return [resumed, *missed]

    def _keep(self, message: Message) -> Message:
        self._last += 1
        kind = message.get("type")
        numbered = {**message, "wlk_seq": self._last}
        if kind in self._replaceable:
            self._drop(self._newest.get(kind))
            self._newest[kind] = self._last
        size = len(json.dumps(numbered))
        self._messages[self._last] = (kind, numbered, size)
        self._characters += size
        while self._characters > self._max_characters:
            oldest = next(iter(self._messages))
            if self._messages[oldest][0] not in self._replaceable:
                self._kept_after = oldest
            self._drop(oldest)
        return numbered

    def _drop(self, number: int | None) -> None:
        if number in self._messages:
            _, _, size = self._messages.pop(number)
            self._characters -= size


def resume_expired(message: str) -> RequestError:
    """Return the error of a session that cannot be resumed."""
    return RequestError(message, status=404, code="resume_expired", param="wlk_resume")


def parse_last_seq(values: Sequence[str]) -> int:
    """
    Return the number in the values of the query field `wlk_last_seq`; 0 for none.

    Raises:
        RequestError: it is not a whole number from 0.

    """
    text = values[-1] if values else "0"
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        raise invalid("wlk_last_seq", "as a whole number", repr(text[:30]))
    return int(text)
