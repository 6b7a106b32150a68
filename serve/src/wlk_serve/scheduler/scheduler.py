"""Step many sessions of one loaded model with a few threads, the earliest deadline first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from wlk_core.errors import OptionError, StreamClosed
from wlk_serve.scheduler.attachment import Attachment
from wlk_serve.scheduler.deadlines import DeadlineQueue, DueTimes, Load

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from wlk_core.backend import Backend
    from wlk_core.session import Session
    from wlk_core.session.events import Event

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
        max_events: events of a session that may wait for its consumer.
        burst_seconds: how much faster than real time audio may come and still be due on arrival.
        clock: returns seconds that never go back.
        on_step: called with the seconds that a step took, in the thread of the step.
        turns: entered by a thread before it chooses a session, and left when none has work; for an
            engine that other threads of the program use too.

    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        same_thread: bool = False,
        tick_seconds: float = 0.5,
        max_events: int = 256,
        burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[float], object] = lambda _seconds: None,
        turns: AbstractContextManager[object] = nullcontext(),  # noqa: B008 -- has no state
    ) -> None:
        count = (os.cpu_count() or 1) if workers is None else workers
        self._tick = float(tick_seconds)
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
        self._stepping: dict[Attachment, tuple[int, float]] = {}  # thread and start of each step
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

    @property
    def longest_step_seconds(self) -> float:
        """How long the oldest step that runs has lasted; 0 where none runs."""
        with self._lock:
            now = self._clock()
            return max((now - began for _, began in self._stepping.values()), default=0.0)

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
            OptionError: the session is attached here already.
            StreamClosed: the session or the scheduler is over.

        """
        with self._lock:
            if self._is_closed:
                raise StreamClosed("the scheduler is closed; open a new one")
            if session.is_over:
                raise StreamClosed("the session is over; open a new one")
            if any(other.session is session for other in (*self._attachments, *self._stepping)):
                raise OptionError(
                    "the session is attached to this scheduler already; detach it first, and wait"
                )
            lanes = [attachment.lane for attachment in self._attachments]
            attachment = Attachment(
                session,
                self,
                lane=min(range(len(self._lanes)), key=lanes.count),
                due_times=DueTimes(self._burst),
                max_events=self._max_events,
                on_events=on_events,
                call=self._callbacks.submit if call is None else call,
            )
            self._attachments.add(attachment)
        attachment.notify()  # the session may have received audio before
        return attachment

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
            me = threading.get_ident()
            while waits and self._stepping.get(attachment, (me, 0.0))[0] != me:
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
        """Make the step that is due first in *lane*; never raises what a session raised."""
        with self._lock:
            turn = self._lanes[lane].take()
            if turn is None:
                return False
            attachment = turn.key
            began = self._clock()
            self._stepping[attachment] = threading.get_ident(), began
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
        return True
