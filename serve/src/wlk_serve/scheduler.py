"""Step many sessions of one loaded model with a few threads, earliest deadline first."""

from __future__ import annotations

from collections import deque
import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Self, TypeAlias

import attrs
import numpy as np

from wlk_core.errors import StreamClosed
from wlk_serve.errors import as_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_live.session import Session
    from wlk_live.session.events import Event
    from wlk_serve.models.stream import RecordingSession

Stepped: TypeAlias = "Session | RecordingSession"
_LOGGER = logging.getLogger(__name__)
_HALF_A_SAMPLE = 0.5 / 16_000  # seconds; rounding errors in sums of durations are much smaller
_WINDOW_SECONDS = 10.0  # `lateness` covers the steps of this period
_MAX_STEPS = 4096  # bounds the memory for the lateness of recent steps
_MIN_STEPS = 10  # fewer steps give no meaningful percentile
_GRAIN_SECONDS = 0.05  # chunks that arrive within it share an arrival time, which bounds memory


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


@attrs.define(eq=False, kw_only=True)
class Attachment:
    """A session that a `Scheduler` steps; created by `Scheduler.attach`."""

    session: Stepped
    is_spare: bool
    lane: int  #: index of the group of threads that step it
    _scheduler: Scheduler
    on_events: Callable[[list[Event]], object]
    due_times: DueTimes
    _audio_time: float  # the session's audio time at the last notification
    is_detached: bool = False

    def notify(self) -> None:
        """
        Tell the scheduler that the session has received audio, a commit or the end.

        Any thread may call it, an event loop's too: it takes microseconds and waits for no model.
        """
        session, scheduler = self.session, self._scheduler
        with scheduler.lock:
            # A gap advances the audio time without any audio: the backlog bounds what has arrived.
            before, self._audio_time = self._audio_time, session.audio_time
            seconds = min(self._audio_time - before, session.backlog_seconds)
            self.due_times.receive(scheduler.clock(), max(0.0, seconds))
            scheduler.enqueue(self)

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
    words.  A running step is never interrupted.  A session is in at most one step at a time; one
    that fails, or whose callback fails, ends without affecting the others.

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
            session is spare.

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
        lanes = max(1, count) if same_thread else 1
        # Per lane, the deadline and rank of each waiting session.  The lowest rank goes first, and
        # among equal ranks the session that has waited longest: dictionaries keep their order, and
        # a server has too few sessions for a heap to pay off.
        self._waiting: list[dict[Attachment, tuple[float, float]]] = [{} for _ in range(lanes)]
        self._work = [threading.Condition(self.lock) for _ in range(lanes)]
        self._step_ended = threading.Condition(self.lock)
        self._stepping: dict[Attachment, float] = {}  # start time of each running step
        self._threads = [
            threading.Thread(target=self._run, args=(i % lanes,), name=f"wlk-step-{i}", daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """Return the number of attached sessions that are not spare."""
        return sum(not attachment.is_spare for attachment in list(self._attachments))

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
        return float(np.percentile(recent, 99)) if len(self) and len(recent) >= _MIN_STEPS else 0.0

    def longest_step(self, *, is_spare: bool) -> float:
        """Return the seconds since the oldest running step of that kind began; 0 if none runs."""
        with self.lock:
            now = self.clock()
            steps = self._stepping.items()
            durations = [now - began for each, began in steps if each.is_spare is is_spare]
        return max(durations, default=0.0)

    def attach(
        self,
        session: Stepped,
        on_events: Callable[[list[Event]], object],
        *,
        is_spare: bool = False,
    ) -> Attachment:
        """
        Step *session* from now on; until it is over or detached, only the scheduler may step it.

        `on_events` is called with one or more events, in order, in the stepping thread; if it
        raises, the session is detached and the error is logged.  A session that `is_spare` has no
        deadline: it is stepped only while no other session waits.

        Raises:
            StreamClosed: the scheduler is closed.

        """
        with self.lock:
            if self._is_closed:
                raise StreamClosed("the scheduler is closed; open a new one")
            lanes = [attachment.lane for attachment in self._attachments]
            attachment = Attachment(
                session=session,
                is_spare=is_spare,
                lane=min(range(len(self._work)), key=lanes.count),
                scheduler=self,
                on_events=on_events,
                due_times=DueTimes(self._burst),
                audio_time=session.audio_time,
            )
            self._attachments.add(attachment)
        attachment.notify()  # the session may already have received audio
        return attachment

    def step(self) -> bool:
        """Run the step that is due first in the calling thread; return whether there was one."""
        return any(self._step_lane(lane) for lane in range(len(self._work)))

    def close(self) -> None:
        """Detach every session after its running step and end the threads; may be called again."""
        with self.lock:
            self._is_closed = True
            attachments = list(self._attachments)
            for condition in self._work:
                condition.notify_all()
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
            self._waiting[attachment.lane].pop(attachment, None)
            attachment.is_detached = True
            while waits and attachment in self._stepping:
                self._step_ended.wait()

    def enqueue(self, attachment: Attachment) -> None:
        """Queue a step of *attachment* if it has work; the caller holds the lock."""
        session, waiting = attachment.session, self._waiting[attachment.lane]
        is_ready = attachment in self._attachments and attachment not in self._stepping
        if not is_ready or not session.has_work:
            return
        if attachment in waiting:
            deadline, rank = waiting[attachment]
        else:
            due = attachment.due_times.due(session.backlog_seconds)
            deadline = rank = math.inf if attachment.is_spare else due + self._tick
            self._work[attachment.lane].notify()
        lead = self._tick if session.is_ending_utterance else 0.0
        waiting[attachment] = deadline, min(rank, deadline - lead)

    def _run(self, lane: int) -> None:
        while True:
            with self.lock:
                while not self._waiting[lane] and not self._is_closed:
                    self._work[lane].wait()
                if not self._waiting[lane]:
                    return
            self._step_lane(lane)

    def _step_lane(self, lane: int) -> bool:
        """Run the step that is due first in *lane*; an error of the session is not raised."""
        with self.lock:
            waiting = self._waiting[lane]
            if not waiting:
                return False
            attachment = min(waiting, key=lambda each: waiting[each][1])
            deadline, _ = waiting.pop(attachment)
            began = self._stepping[attachment] = self.clock()
        now = began
        try:
            try:
                events = attachment.session.step()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _LOGGER.warning("a session failed", exc_info=True)
                events = attachment.session.fail(as_failure(error))
            now = self.clock()
            if events and not attachment.is_detached:  # before another thread can step the session
                try:
                    attachment.on_events(events)
                except Exception:  # for example from an event loop that is closed
                    _LOGGER.exception("the callback of a session raised; the session is detached")
                    self.drop(attachment, waits=False)
        finally:  # after Ctrl-C in a program that calls `step`, too
            with self.lock:
                del self._stepping[attachment]
                self._step_ended.notify_all()
                if attachment in self._attachments:
                    if not attachment.is_spare:
                        self._steps.append((now, now - deadline))
                    if attachment.session.is_over:
                        self._attachments.remove(attachment)
                    else:
                        self.enqueue(attachment)
        if not attachment.is_spare:
            self._on_step(now - began)
        return True
