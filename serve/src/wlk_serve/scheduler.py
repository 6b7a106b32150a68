"""Step many sessions of one loaded model with a few threads, earliest deadline first."""

from __future__ import annotations

from collections import Counter, deque
import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import attrs
import numpy as np

from wlk_core.errors import StreamClosed
from wlk_serve.errors import as_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.errors import WLKError
    from wlk_live.session.events import Event
    from wlk_live.session.session import Pending

_LOGGER = logging.getLogger(__name__)
_HALF_A_SAMPLE = 0.5 / 16_000  # seconds; rounding errors in sums of durations are much smaller
_WINDOW_SECONDS = 10.0  # `lateness` covers the steps of this period
_MAX_STEPS = 4096  # bounds the memory for the lateness of recent steps
_MIN_STEPS = 10  # fewer steps give no meaningful percentile
_GRAIN_SECONDS = 0.05  # chunks that arrive within it share an arrival time, which bounds memory


class Stepped(Protocol):
    """What a scheduler steps: a session of wlk_live, or one that reads a recording."""

    @property
    def pending(self) -> Pending | None:
        """What the next step is about; None if it would do nothing now."""

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""

    def step(self) -> list[Event]:
        """Run the next step; return its events."""

    def fail(self, error: WLKError) -> list[Event]:
        """End the session because of *error*; return its last events."""


class DueTimes:
    """
    Computes when the waiting audio of a session is due, in seconds of the caller's clock.

    Audio is due when it arrives.  Audio sent ahead of real time is due when it would have been
    spoken, less a grace of `burst_seconds`, so that a recording sent all at once does not delay
    other sessions.  A source that has stalled may catch up by the same burst, and no more.
    """

    def __init__(self, burst_seconds: float) -> None:
        self._burst = burst_seconds
        self._origin = -math.inf  # when the stream began in real time, minus the burst
        self._received = 0.0  # seconds of audio so far
        self._arrivals: deque[tuple[float, float]] = deque()  # (end of the audio, arrival time)

    def receive(self, now: float, seconds: float) -> None:
        """Count *seconds* of audio that arrived at *now*; a command has 0 seconds."""
        self._origin = max(self._origin, now - self._received - self._burst)
        self._received += seconds
        if self._arrivals and now - self._arrivals[-1][1] < _GRAIN_SECONDS:
            now = self._arrivals.pop()[1]
        self._arrivals.append((self._received, now))

    def due(self, waiting: float) -> float:
        """Return when the oldest of *waiting* seconds of audio is due; call `receive` first."""
        taken = self._received - waiting + _HALF_A_SAMPLE
        while len(self._arrivals) > 1 and self._arrivals[0][0] <= taken:
            self._arrivals.popleft()
        return max(self._arrivals[0][1], self._origin + taken - _HALF_A_SAMPLE)


class _WaitingStep(NamedTuple):
    """When the next step of a session should end, and its rank: the lowest goes first."""

    deadline: float
    rank: float


@attrs.define(eq=False)
class _ThreadGroup:
    """Worker threads that share their sessions: all of them, or a single one with `same_thread`."""

    has_work: threading.Condition
    # Of equal ranks, the session that has waited longest goes first: dictionaries keep their order,
    # and a server has too few sessions for a heap to pay off.
    waiting: dict[Attachment, _WaitingStep] = attrs.field(factory=dict)
    # When the next steps of sessions whose calls have failed may begin.
    retries: dict[Attachment, float] = attrs.field(factory=dict)


@attrs.define(eq=False, kw_only=True)
class Attachment:
    """A session that a `Scheduler` steps; created by `Scheduler.attach`."""

    session: Stepped
    is_background: bool  #: whether it has no deadline
    group: _ThreadGroup  #: the threads that step it
    _scheduler: Scheduler
    on_events: Callable[[list[Event]], object]
    after_step: Callable[[], object]
    due_times: DueTimes
    _audio_time: float = 0.0  # the session's audio time at the last notification
    is_detached: bool = False

    def notify(self) -> None:
        """
        Tell the scheduler that the session has received audio, a commit or the end.

        Any thread may call it, an event loop's too: it takes microseconds and waits for no model.
        """
        scheduler = self._scheduler
        with scheduler.lock:
            if (pending := self.session.pending) is None:
                return
            before, self._audio_time = self._audio_time, pending.audio_time
            # A gap advances the audio time without any audio: the backlog bounds what has arrived.
            seconds = min(pending.audio_time - before, pending.backlog_seconds)
            self.due_times.receive(scheduler.clock(), max(0.0, seconds))
            scheduler.enqueue(self, pending)

    def detach(self) -> None:
        """
        Stop stepping the session, for example after a disconnect; may be called again.

        Waits for the step in progress, so do not call it from `on_events`; afterwards `on_events`
        is not called any more and the processor can be closed.  From an event loop use
        ``await asyncio.to_thread(attachment.detach)``.
        """
        self._scheduler.drop(self, waits=True)


class Scheduler:
    """
    Steps many sessions with a few threads, earliest deadline first.

    The deadline of a step is `tick_seconds` after its audio is due, which is when the audio arrived
    (see `DueTimes` for audio that is sent faster than real time).  A session whose utterance is
    over is served as if its deadline were a tick earlier, because its client waits for the last
    words.  A session whose call failed is stepped again after its `retry_delay`, which delays no
    other session.  A running step is never interrupted.  A session is in at most one step at a
    time; one that fails, or whose callback fails, ends without affecting the others.

    The lock is held for a few lines of bookkeeping, never while a model or a callback runs.  Use
    the scheduler as a context manager, or call `close`.

    Args:
        workers: number of stepping threads, and so of engine calls that can overlap; None for one
            per CPU core.  A backend declares it as ``spec.max_concurrent_calls``.  With 0 there
            are no threads, and the program calls `step`.
        same_thread: whether a session stays on one thread, as backends with
            ``thread_affinity="same-thread"`` need it.  The deadlines then order the sessions of
            each thread, because a session cannot move to a thread that is idle.
        tick_seconds: how long after its audio is due a step may end; the tick of the streams.
        burst_seconds: how far ahead of real time audio can arrive and still be due on arrival.
        clock: returns seconds, monotonically.
        on_step: called in the stepping thread with the seconds that the step took, unless its
            session is a background one.

    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        same_thread: bool = False,
        tick_seconds: float = 0.5,
        burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[float], object] = lambda _seconds: None,
    ) -> None:
        count = (os.cpu_count() or 1) if workers is None else workers
        self._tick = float(tick_seconds)
        self._burst = burst_seconds
        self.clock = clock
        self._on_step = on_step
        self.lock = threading.Lock()  #: hold it to call `enqueue`
        self._is_closed = False
        self._attachments: set[Attachment] = set()
        # The end time and the lateness of each recent step.
        self._steps: deque[tuple[float, float]] = deque(maxlen=_MAX_STEPS)
        self._step_ended = threading.Condition(self.lock)
        self._stepping: dict[Attachment, float] = {}  # start time of each running step
        groups = max(1, count) if same_thread else 1
        self._groups = [_ThreadGroup(threading.Condition(self.lock)) for _ in range(groups)]
        self._threads: list[threading.Thread] = []
        for number in range(count):
            group = self._groups[number] if same_thread else self._groups[0]
            name = f"wlk-step-{number}"
            thread = threading.Thread(target=self._run, args=(group,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def __len__(self) -> int:
        """Return the number of attached sessions that are not background ones."""
        live = [each for each in list(self._attachments) if not each.is_background]
        return len(live)

    @property
    def lateness(self) -> float:
        """
        The 99th percentile of the lateness of steps in the last ten seconds.

        Seconds from the deadline to the end of a step, negative for steps that ended earlier; 0
        without sessions, or with fewer than ten steps in that time.
        """
        with self.lock:
            since = self.clock() - _WINDOW_SECONDS
            recent = [lateness for ended, lateness in self._steps if ended >= since]
        if len(self) == 0 or len(recent) < _MIN_STEPS:
            return 0.0
        return float(np.percentile(recent, 99))

    def longest_step(self, *, is_background: bool) -> float:
        """Return the seconds since the oldest running step of that kind began; 0 if none runs."""
        with self.lock:
            now = self.clock()
            durations = [
                now - began
                for attachment, began in self._stepping.items()
                if attachment.is_background is is_background
            ]
        return max(durations, default=0.0)

    def attach(
        self,
        session: Stepped,
        on_events: Callable[[list[Event]], object],
        *,
        after_step: Callable[[], object] = lambda: None,
        is_background: bool = False,
    ) -> Attachment:
        """
        Step *session* from now on; until it is over or detached, only the scheduler may step it.

        `on_events` is called with one or more events, in order, in the stepping thread, and
        `after_step` after each step, also one without events; if either raises, the session is
        detached and the error is logged.  A session that `is_background` has no deadline: it is
        stepped only while no other session waits.

        Raises:
            StreamClosed: the scheduler is closed.

        """
        with self.lock:
            if self._is_closed:
                raise StreamClosed("the scheduler is closed; open a new one")
            sizes = Counter(each.group for each in self._attachments)
            attachment = Attachment(
                session=session,
                is_background=is_background,
                group=min(self._groups, key=lambda group: sizes[group]),
                scheduler=self,
                on_events=on_events,
                after_step=after_step,
                due_times=DueTimes(self._burst),
            )
            self._attachments.add(attachment)
        attachment.notify()  # the session may already have received audio
        return attachment

    def step(self) -> bool:
        """
        Run the step that is due first in the calling thread; return whether there was one.

        A session whose call failed has no step during its `retry_delay`.
        """
        return any(self._step_first(group) for group in self._groups)  # until one has a step

    def close(self) -> None:
        """Detach every session after its running step and end the threads; may be called again."""
        with self.lock:
            self._is_closed = True
            attachments = list(self._attachments)
            for group in self._groups:
                group.has_work.notify_all()
        for attachment in attachments:
            self.drop(attachment, waits=True)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def drop(self, attachment: Attachment, *, waits: bool) -> None:
        """Remove *attachment*; see `Attachment.detach`."""
        with self.lock:
            self._attachments.discard(attachment)
            attachment.group.waiting.pop(attachment, None)
            attachment.group.retries.pop(attachment, None)
            attachment.is_detached = True
            while waits and attachment in self._stepping:
                self._step_ended.wait()

    def enqueue(self, attachment: Attachment, pending: Pending) -> None:
        """
        Queue a step of *attachment*, unless one runs or waits to be tried again.

        *pending* is what the step is about; the caller holds the lock.
        """
        group = attachment.group
        is_ready = attachment in self._attachments and attachment not in self._stepping
        if not is_ready or attachment in group.retries:
            return
        if attachment in group.waiting:
            deadline, rank = group.waiting[attachment]
        elif attachment.is_background:
            deadline = rank = math.inf
            group.has_work.notify()
        else:
            deadline = rank = attachment.due_times.due(pending.backlog_seconds) + self._tick
            group.has_work.notify()
        if pending.is_ending_utterance:
            rank = min(rank, deadline - self._tick)
        group.waiting[attachment] = _WaitingStep(deadline, rank)

    def _enqueue_retries(self, group: _ThreadGroup) -> float | None:
        """Queue the retries that are due; return the seconds until the next one, if any."""
        if not group.retries:
            return None
        now = self.clock()
        for attachment in [each for each, due in group.retries.items() if due <= now]:
            del group.retries[attachment]
            if (pending := attachment.session.pending) is not None:
                self.enqueue(attachment, pending)
        return min(group.retries.values()) - now if group.retries else None

    def _run(self, group: _ThreadGroup) -> None:
        while True:
            with self.lock:
                while not self._is_closed:
                    seconds = self._enqueue_retries(group)
                    if group.waiting:
                        break
                    group.has_work.wait(seconds)
                if not group.waiting:
                    return
            self._step_first(group)

    def _step_first(self, group: _ThreadGroup) -> bool:
        """Run the step of *group* that is due first, if any; session errors are not raised."""
        with self.lock:
            self._enqueue_retries(group)
            waiting = group.waiting
            if not waiting:
                return False
            attachment = min(waiting, key=lambda each: waiting[each].rank)
            deadline = waiting.pop(attachment).deadline
            began = self._stepping[attachment] = self.clock()
        ended = began
        try:
            try:
                events = attachment.session.step()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _LOGGER.warning("a session failed", exc_info=True)
                events = attachment.session.fail(as_failure(error))
            ended = self.clock()
            if not attachment.is_detached:  # before another thread can step the session
                self._report(attachment, events)
        finally:  # after Ctrl-C in a program that calls `step`, too
            with self.lock:
                self._end_step(attachment, ended, lateness=ended - deadline)
        if not attachment.is_background:
            self._on_step(ended - began)
        return True

    def _report(self, attachment: Attachment, events: list[Event]) -> None:
        try:
            if events:
                attachment.on_events(events)
            attachment.after_step()
        except Exception:  # for example from an event loop that is closed
            _LOGGER.exception("the callback of a session raised; the session is detached")
            self.drop(attachment, waits=False)

    def _end_step(self, attachment: Attachment, ended: float, lateness: float) -> None:
        """Count a step, and queue the next one of its session; the caller holds the lock."""
        del self._stepping[attachment]
        self._step_ended.notify_all()
        if attachment not in self._attachments:
            return
        if not attachment.is_background:
            self._steps.append((ended, lateness))
        session, group = attachment.session, attachment.group
        if session.is_over:
            self._attachments.remove(attachment)
        elif (pending := session.pending) is None:
            return  # until it is notified
        elif pending.retry_delay > 0:
            group.retries[attachment] = ended + pending.retry_delay
            group.has_work.notify_all()  # idle threads wait no longer than until then
        else:
            self.enqueue(attachment, pending)
