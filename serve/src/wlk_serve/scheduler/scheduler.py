"""Many sessions on one loaded model: who is stepped next, by which thread, and who is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from wlk_core._arguments import real_number, shown
from wlk_core.errors import OptionError, SessionOverloaded, StreamClosed
from wlk_core.session.session import Session
from wlk_serve.scheduler.attachment import Attachment
from wlk_serve.scheduler.deadlines import DeadlineQueue, DueTimes
from wlk_serve.scheduler.load import Load
from wlk_serve.scheduler.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    from wlk_core.backend import Backend
    from wlk_core.session.events import Event
    from wlk_serve.scheduler.deadlines import Turn

__all__ = ["Scheduler"]

_MAX_CALLBACKS = 10_000  # threads; a thread exists only while a callback runs, one for a session
_MIN_SLOW_STEPS = 10  # steps, one for each chunk, from which their lateness is an estimate


class Scheduler:
    """
    Steps many sessions with a few threads, the earliest deadline first.

    The deadline of a step is `tick_seconds` after its audio is due, which is when the audio arrived
    (see `DueTimes` for audio that is sent faster than it is spoken).  The deadline of a
    session whose utterance is over counts as a tick earlier, because its client waits for the last
    words.  A step that runs is never interrupted.  A session is in one step at
    a time; a session that fails, or whose consumer does, ends alone.

    A consumer that does not take its events stops its own session: with `max_events` waiting it is
    not stepped, its audio waits, and beyond the session's `max_backlog_seconds` its `receive`
    refuses more.  That bounds the memory of a session.

    The policy is in objects without threads and clocks: `DueTimes`, `DeadlineQueue`, `Load`,
    `Outbox`.  The scheduler is their lock and their threads.  The lock is held for a few lines of
    bookkeeping, never while a model or a callback runs.

    Use it as a context manager, or call `close`.

    Args:
        workers: threads that step, so how many engine calls may overlap; None for one a CPU core.
            A backend declares it as ``spec.max_concurrent_calls``.  With 0 there are no threads,
            and the program calls `step`.
        same_thread: every session keeps to one thread, as backends with
            ``thread_affinity="same-thread"`` need it.  The deadlines then order the sessions of
            each thread, because a session cannot move to a thread that is idle.
        tick_seconds: how long after its audio is due a step may end; the tick of the streams.
        max_sessions: how many sessions may be attached; None for no such limit.
        max_lateness: seconds; while more than one step in a hundred ends later than this after its
            deadline, new sessions are refused.
        max_events: events of a session that may wait for its consumer.
        burst_seconds: how much faster than real time audio may come and still be due on arrival.
        clock: returns seconds that never go back.
        on_step: called with the seconds that a step took, in the thread of the step.
        turns: entered by a thread before it chooses a session, and left when none has work; for an
            engine that other threads of the program use too.

    Raises:
        OptionError: an argument is of another type or out of range.

    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        same_thread: bool = False,
        tick_seconds: float = 0.5,
        max_sessions: int | None = None,
        max_lateness: float = 0.05,
        max_events: int = 256,
        burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[float], object] = lambda _seconds: None,
        turns: AbstractContextManager[object] = nullcontext(),  # noqa: B008 -- has no state
    ) -> None:
        count = (os.cpu_count() or 1) if workers is None else workers
        _check_arguments(
            counts={"workers": (count, 0), "max_events": (max_events, 1)}
            | ({} if max_sessions is None else {"max_sessions": (max_sessions, 0)}),
            seconds={"tick_seconds": tick_seconds, "burst_seconds": burst_seconds},
        )
        if not isinstance(same_thread, bool):
            raise OptionError(f"expected `same_thread` as True or False, got {shown(same_thread)}")
        if (lateness := real_number(max_lateness)) is None or not lateness >= 0:
            raise OptionError(
                f"expected `max_lateness` in seconds, 0 or more, got {shown(max_lateness)}"
            )
        if not callable(clock):
            raise OptionError(f"expected `clock` as a function of seconds, got {shown(clock)}")
        self._tick = float(tick_seconds)
        self._max_sessions = max_sessions
        self._max_lateness = max_lateness
        self._max_events = max_events
        self._burst = burst_seconds
        self._clock = clock
        self._on_step = on_step
        self._turns = turns
        self._lock = threading.Lock()
        self._is_closed = False
        self._attachments: set[Attachment] = set()
        self._load = Load(min_steps=_MIN_SLOW_STEPS)
        lanes = max(1, count) if same_thread else 1
        self._lanes: list[DeadlineQueue[Attachment]] = [DeadlineQueue() for _ in range(lanes)]
        self._work = [threading.Condition(self._lock) for _ in range(lanes)]
        self._step_ended = threading.Condition(self._lock)
        self._stepping: dict[Attachment, int] = {}  # the thread in which each step runs
        self._callbacks = ThreadPoolExecutor(_MAX_CALLBACKS, "wlk-events")
        self._threads = [
            threading.Thread(target=self._run, args=(i % lanes,), name=f"wlk-step-{i}", daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def for_backend(cls, backend: Backend, **options: Any) -> Self:
        """
        Return a scheduler with the threads that *backend* declares; *options* as for the class.

        A backend without a `spec` gets the defaults.
        """
        spec = getattr(backend, "spec", None)
        if spec is not None:
            options.setdefault("workers", spec.max_concurrent_calls)
            options.setdefault("same_thread", spec.thread_affinity == "same-thread")
        return cls(**options)

    def __len__(self) -> int:
        """Count the sessions that are attached."""
        return len(self._attachments)

    @property
    def lateness(self) -> float | None:
        """
        The 99th percentile of the lateness of the steps of the last ten seconds.

        Seconds from the deadline to the end of a step, negative where it ended before; None while
        fewer than ten steps were made.
        """
        with self._lock:
            return self._load.p99(self._clock())

    def admit(self) -> None:
        """
        Check that another session can be taken; `attach` does the same.

        Raises:
            SessionOverloaded: `max_sessions` are attached, or the steps end too late.
            StreamClosed: the scheduler is closed.

        """
        with self._lock:
            self._check_room()

    def _check_room(self) -> None:
        if self._is_closed:
            raise StreamClosed("the scheduler is closed; open a new one")
        count = len(self._attachments)
        if self._max_sessions is not None and count >= self._max_sessions:
            raise SessionOverloaded(
                f"{count} sessions run, the limit is {self._max_sessions}; try again later"
            )
        lateness = self._load.p99(self._clock()) if count else None
        if lateness is not None and lateness > self._max_lateness:
            raise SessionOverloaded(
                f"steps of the {count} sessions end {lateness:.2f} s after their deadline, the "
                f"bound is {self._max_lateness:g} s; try again later"
            )

    def attach(
        self,
        session: Session,
        on_events: Callable[[list[Event]], object] | None = None,
        *,
        call: Callable[[Callable[[], object]], object] | None = None,
    ) -> Attachment:
        """
        Step *session* from now on; until it is over or detached, only the scheduler may step it.

        `on_events` is called with one or more events, in their order, one call at a time; if it
        raises, the session is detached and the error is logged.  It runs in a thread of its own,
        or where `call` runs it: ``call=loop.call_soon_threadsafe`` for an event loop.  Without
        `on_events` the events wait for `Attachment.events`.

        Raises:
            OptionError: no session, one that is attached here already, or no callable.
            StreamClosed: the session or the scheduler is over.
            SessionOverloaded: see `admit`.

        """
        if not isinstance(session, Session):
            raise OptionError(f"expected a session, got {shown(session)}")
        for name, function in [("on_events", on_events), ("call", call)]:
            if function is not None and not callable(function):
                raise OptionError(f"expected `{name}` as a function, got {shown(function)}")
        with self._lock:
            self._check_room()
            self._check_is_new(session)
            lanes = [attachment.lane for attachment in self._attachments]
            attachment = Attachment(
                session,
                self,
                lane=min(range(len(self._lanes)), key=lanes.count),
                due_times=DueTimes(self._burst),
                outbox=Outbox(self._max_events),
                on_events=on_events,
                call=self._callbacks.submit if call is None else call,
            )
            self._attachments.add(attachment)
        attachment.notify()  # the session may have received audio before
        return attachment

    def _check_is_new(self, session: Session) -> None:
        if session.is_over:
            raise StreamClosed("the session is over; open a new one")
        if any(other.session is session for other in (*self._attachments, *self._stepping)):
            raise OptionError(
                "the session is attached to this scheduler already; detach it first, and wait"
            )

    def step(self) -> bool:
        """Make the step that is due first, in the calling thread; return whether there was one."""
        with self._turns:
            return any(self._step_lane(lane) for lane in range(len(self._lanes)))

    def close(self) -> None:
        """Detach every session after its running step, and end the threads; may be called again."""
        with self._lock:
            self._is_closed = True
            attachments = list(self._attachments)
            for condition in self._work:
                condition.notify_all()
        for attachment in attachments:
            self.drop(attachment, waits=True)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._callbacks.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def wake(self, attachment: Attachment) -> None:
        """Queue a step of *attachment* if there is one to make; see `Attachment.notify`."""
        with self._lock:
            attachment.count_arrivals(self._clock())
            self._enqueue(attachment)

    def drop(self, attachment: Attachment, *, waits: bool) -> None:
        """Forget *attachment*; see `Attachment.detach`."""
        with self._lock:
            self._attachments.discard(attachment)
            self._lanes[attachment.lane].remove(attachment)
            attachment.end()
            while waits and self._stepping.get(attachment) not in (None, threading.get_ident()):
                self._step_ended.wait()

    def _enqueue(self, attachment: Attachment) -> None:
        if attachment not in self._attachments or not attachment.session.has_work:
            return
        if attachment.outbox.is_full:
            attachment.is_stopped = True
            return
        if attachment.is_stopped:
            attachment.resume(self._clock())
        lane = self._lanes[attachment.lane]
        lead = self._tick if attachment.session.is_ending_utterance else 0.0
        if lane.put(attachment, attachment.due() + self._tick, lead=lead):
            self._work[attachment.lane].notify()
        else:
            lane.advance(attachment, lead)

    def _take(self, lane: int) -> Turn[Attachment] | None:
        turn = self._lanes[lane].take()
        if turn is not None:
            self._stepping[turn.key] = threading.get_ident()
        return turn

    def _run(self, lane: int) -> None:
        while True:
            with self._lock:
                while not self._lanes[lane] and not self._is_closed:
                    self._work[lane].wait()
                if not self._lanes[lane]:
                    return
            with self._turns:  # while it waited, a session may have come that is due earlier
                while self._step_lane(lane):
                    pass

    def _step_lane(self, lane: int) -> bool:
        with self._lock:
            turn = self._take(lane)
        if turn is not None:
            self._make(turn)
        return turn is not None

    def _make(self, turn: Turn[Attachment]) -> None:
        """Make a step and hand over its events; never raises what a session raised."""
        attachment = turn.key
        began = self._clock()
        events = attachment.step()
        now = self._clock()
        self._on_step(now - began)
        attachment.publish(events)  # before another thread may step the session
        with self._lock:
            del self._stepping[attachment]
            self._lanes[attachment.lane].release(attachment)
            self._step_ended.notify_all()
            if attachment in self._attachments:
                self._load.add(now, now - turn.deadline)
                if attachment.session.is_over:
                    self._attachments.remove(attachment)
                else:
                    self._enqueue(attachment)


def _check_arguments(
    *, counts: Mapping[str, tuple[object, int]], seconds: Mapping[str, object]
) -> None:
    for name, (count, least) in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise OptionError(
                f"expected `{name}` as a whole number, {least} or more, got {shown(count)}"
            )
    for name, value in seconds.items():
        number = real_number(value)
        if number is None or not 0 <= number < math.inf:
            raise OptionError(f"expected `{name}` in seconds, 0 or more, got {shown(value)}")
