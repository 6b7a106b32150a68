"""A session in the care of a scheduler: its wake-ups, its events, its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import logging
import math
import threading
from typing import TYPE_CHECKING, Protocol

from wlk_core.session.events import End, HypothesisChange
from wlk_serve.errors import as_failure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from wlk_core.session.events import Event
    from wlk_core.session.session import Session
    from wlk_serve.scheduler.deadlines import DueTimes

__all__ = ["Attachment", "Outbox"]

_LOGGER = logging.getLogger(__name__)


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


class _Owner(Protocol):
    """What an attachment asks of its scheduler."""

    def wake(self, attachment: Attachment) -> None: ...

    def drop(self, attachment: Attachment, *, waits: bool) -> None: ...


class Attachment:
    """
    A session that a `Scheduler` steps; made by `Scheduler.attach`.

    Audio goes to the session, and `notify` announces it::

        session.receive(chunk)
        attachment.notify()

    Events come in their order: to the callback that was given to `attach`, or from `events`.  The
    other methods are for the scheduler.
    """

    def __init__(
        self,
        session: Session,
        owner: _Owner,
        *,
        lane: int,
        due_times: DueTimes,
        max_events: int,
        on_events: Callable[[list[Event]], object] | None,
        call: Callable[[Callable[[], object]], object],
    ) -> None:
        self.session = session
        self.lane = lane
        self.outbox = Outbox(max_events)
        self._owner = owner
        self._due_times = due_times
        self._on_events = on_events
        self._call = call
        self._state = threading.Condition()  # held for a few lines, never in a step or a callback
        self._is_attached = True
        self._is_delivering = False  # a delivery runs or was requested
        self._callback_thread: int | None = None
        self._wake_reader: Callable[[], object] | None = None
        self._audio_time = session.audio_time
        self._resumed = -math.inf
        self.is_stopped = False  # by a full outbox

    @property
    def is_attached(self) -> bool:
        """Whether the session is still stepped or has events to deliver."""
        return self._is_attached

    def notify(self) -> None:
        """
        Announce audio, a commit or the end that the session has received.

        From any thread, event loops included: it takes microseconds and never waits for a model.
        """
        self._owner.wake(self)

    def detach(self, *, wait: bool = True) -> None:
        """
        Stop stepping the session, as after a disconnect; may be called again.

        No event is delivered once it returns.  With `wait` it returns after the step and the call
        of `on_events` that are running, unless it is called in one of them; then the processor can
        be closed.  From an event loop: ``await asyncio.to_thread(attachment.detach)``.
        """
        self._owner.drop(self, waits=wait)
        me = threading.get_ident()
        with self._state:
            while wait and self._callback_thread not in (None, me):
                self._state.wait()

    async def events(self) -> AsyncGenerator[Event]:
        """
        Yield the events until the End, or until the session is detached.

        For one reader, of a session that was attached without a callback.  A reader that is slow
        slows down only its session.
        """
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        ready.set()
        self._wake_reader = lambda: loop.call_soon_threadsafe(ready.set)
        while True:
            await ready.wait()
            ready.clear()
            is_attached = self._is_attached
            events = self.outbox.take()
            for event in events:
                yield event
                if isinstance(event, End):
                    return
            if not is_attached:
                return
            if len(events) >= self.outbox.max_events:
                self._owner.wake(self)  # a full outbox had stopped the session

    def count_arrivals(self, now: float) -> None:
        """Count what the session has received since the last call."""
        # A gap moves the audio time without audio, so that no more than what waits has arrived.
        seconds = min(self.session.audio_time - self._audio_time, self.session.backlog_seconds)
        self._audio_time = self.session.audio_time
        self._due_times.receive(now, max(0.0, seconds))

    def due(self) -> float:
        """Return when the work that waits is due."""
        return max(self._due_times.due(self.session.backlog_seconds), self._resumed)

    def resume(self, now: float) -> None:
        """Let nothing be due before *now*, because the consumer had stopped the session."""
        self._resumed = now
        self.is_stopped = False

    def step(self) -> list[Event]:
        """Step the session; an error becomes its final Failure and the End."""
        try:
            return self.session.step()
        except BaseException as error:
            if threading.current_thread() is threading.main_thread() and isinstance(
                error, KeyboardInterrupt
            ):
                raise  # of the user's terminal
            _LOGGER.warning("a session failed", exc_info=True)
            return self.session.fail(as_failure(error))

    def publish(self, events: list[Event]) -> None:
        """Hand *events* to the consumer without waiting for it."""
        if not events or not self._is_attached:
            return
        self.outbox.put(events)
        self._start_delivery()

    def end(self) -> None:
        """Deliver nothing any more and wake the reader."""
        with self._state:
            self._is_attached = False
        if self._wake_reader is not None:
            with suppress(RuntimeError):  # the event loop of the reader is closed
                self._wake_reader()

    def _start_delivery(self) -> None:
        try:
            if self._on_events is None:
                if self._wake_reader is not None:
                    self._wake_reader()
                return
            with self._state:
                if self._is_delivering or not self._is_attached:
                    return
                self._is_delivering = True
            self._call(self._deliver)
        except RuntimeError:  # the event loop or the pool of the consumer is closed
            _LOGGER.warning("a session lost its consumer and is detached", exc_info=True)
            self._owner.drop(self, waits=False)

    def _deliver(self) -> None:
        """Call `on_events` with what waits, until nothing does."""
        while self._on_events is not None:
            with self._state:
                events = self.outbox.take() if self._is_attached else []
                if not events:
                    self._is_delivering = False
                    return
                self._callback_thread = threading.get_ident()
            try:
                self._on_events(events)
            except Exception:
                _LOGGER.exception("the callback of a session raised; the session is detached")
                self._owner.drop(self, waits=False)
            finally:
                with self._state:
                    self._callback_thread = None
                    self._state.notify_all()
            if len(events) >= self.outbox.max_events:
                self._owner.wake(self)  # a full outbox had stopped the session
