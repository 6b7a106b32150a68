"""What a session has reported and its consumer has not taken yet."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wlk_core.session.events import HypothesisChange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.session.events import Event

__all__ = ["Outbox"]


class Outbox:
    """
    Events in their order, for a consumer that may be slow.

    A hypothesis that directly follows another replaces it, because only the newest counts.  Nothing
    else is dropped.  A producer stops while `is_full`; the box takes whatever is put.
    Any thread may call.
    """

    def __init__(self, max_events: int) -> None:
        self.max_events = max_events
        self._lock = threading.Lock()  # held for a few list operations
        self._events: list[Event] = []

    def __len__(self) -> int:
        """Count the events that wait."""
        return len(self._events)

    @property
    def is_full(self) -> bool:
        """Whether `max_events` or more wait."""
        return len(self._events) >= self.max_events

    def put(self, events: Iterable[Event]) -> None:
        """Append *events*."""
        with self._lock:
            for event in events:
                if (
                    isinstance(event, HypothesisChange)
                    and self._events
                    and isinstance(self._events[-1], HypothesisChange)
                ):
                    self._events.pop()
                self._events.append(event)

    def take(self) -> list[Event]:
        """Return and forget all events; a producer that stopped left `max_events` or more."""
        with self._lock:
            events, self._events = self._events, []
            return events
