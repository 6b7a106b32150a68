"""Step many sessions of one loaded model with a few threads, the earliest deadline first."""

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

    from wlk_core.session import Session
    from wlk_core.session.events import Event
    from wlk_serve.models.stream import RecordingSession

Stepped: TypeAlias = "Session | RecordingSession"
_LOGGER = logging.getLogger(__name__)
_HALF_A_SAMPLE = 0.5 / 16_000  # seconds; sums of durations are rounded by much less
_WINDOW_SECONDS = 10.0  # of the steps whose lateness counts
_MAX_STEPS = 4096  # newest steps whose lateness is kept, which bounds memory
_MIN_STEPS = 10  # one for each chunk, from which their lateness is an estimate
_GRAIN_SECONDS = 0.05  # chunks that arrive within it share an arrival time, which bounds memory


class DueTimes:
    """
    When the waiting audio of a session is due, by the clock of the caller.

    Audio is due when it arrives.  Audio that is sent faster than it is spoken is due when it would
    have been spoken, `burst_seconds` earlier at most; so a recording that is sent at once takes no
    time from the sessions beside it.  A stall of the source earns the same burst, and no more.

    All times are seconds.  There is no clock in here: every call carries the current time.
    """

    def __init__(self, burst_seconds: float) -> None:
        self._burst = burst_seconds
        self._origin = -math.inf  # when the first second of audio was spoken, less the burst
        self._received = 0.0  # seconds of audio so far
        self._arrivals: deque[tuple[float, float]] = deque()  # end of the audio, its arrival

    def receive(self, now: float, seconds: float) -> None:
        """Count *seconds* of audio, 0 for a command, that arrived at *now*."""
        self._origin = max(self._origin, now - self._received - self._burst)
        self._received += seconds
        if self._arrivals and now - self._arrivals[-1][1] < _GRAIN_SECONDS:
            now = self._arrivals.pop()[1]
        self._arrivals.append((self._received, now))

    def due(self, waiting: float) -> float:
        """Return when the oldest of *waiting* seconds of audio is due; `receive` came before."""
        taken = self._received - waiting + _HALF_A_SAMPLE
        while len(self._arrivals) > 1 and self._arrivals[0][0] <= taken:
            self._arrivals.popleft()
        return max(self._arrivals[0][1], self._origin + taken - _HALF_A_SAMPLE)


@attrs.define(eq=False, kw_only=True)
class Attachment:
    """A session that a `Scheduler` steps; made by `Scheduler.attach`."""

    session: Stepped
    is_spare: bool
    lane: int  #: which threads step it
    _scheduler: Scheduler
    on_events: Callable[[list[Event]], object]
    due_times: DueTimes
    _audio_time: float  # of the session when it was notified last
    is_detached: bool = False

    def notify(self) -> None:
        """
        Announce audio, a commit or the end, after the session has received it.

        From any thread, event loops included: it takes microseconds and never waits for a model.
        """
        session, scheduler = self.session, self._scheduler
        with scheduler.lock:
            # A gap moves the audio time without audio, so that no more than what waits has arrived.
            before, self._audio_time = self._audio_time, session.audio_time
            seconds = min(self._audio_time - before, session.backlog_seconds)
            self.due_times.receive(scheduler.clock(), max(0.0, seconds))
            scheduler.enqueue(self)

    def detach(self) -> None:
        """
        Stop stepping the session, as after a disconnect; may be called again.

        No call of `on_events` begins once it returns.  It returns after the step that runs, and
        then the processor can be closed.  From an event loop:
        ``await asyncio.to_thread(attachment.detach)``.
        """
        self._scheduler.drop(self, waits=True)


class Scheduler:
    """
    Steps many sessions with a few threads, the earliest deadline first.

    The deadline of a step is `tick_seconds` after its audio is due, which is when the audio arrived
    (see `DueTimes` for audio that is sent faster than it is spoken).  The deadline of a
    session whose utterance is over counts as a tick earlier, because its client waits for the last
    words.  A step that runs is never interrupted.  A session is in one step at
    a time; a session that fails, or whose consumer does, ends alone.

    The lock is held for a few lines of bookkeeping, never while a model or a callback runs.

    Use it as a context manager, or call `close`.

    Args:
        workers: threads that step, so how many engine calls may overlap; None for one a CPU core.
            A backend declares it as ``spec.max_concurrent_calls``.  With 0 there are no threads,
            and the program calls `step`.
        same_thread: every session keeps to one thread, as backends with
            ``thread_affinity="same-thread"`` need it.  The deadlines then order the sessions of
            each thread, because a session cannot move to a thread that is idle.
        tick_seconds: how long after its audio is due a step may end; the tick of the streams.
        burst_seconds: how much faster than real time audio may come and still be due on arrival.
        clock: returns seconds that never go back.
        on_step: called with the seconds that a step of a session which is not spare took, in the
            thread of the step.

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
        self.lock = threading.Lock()  #: of `enqueue`
        self._is_closed = False
        self._attachments: set[Attachment] = set()
        # The end of each of the newest steps, and how long after its deadline that was.
        self._steps: deque[tuple[float, float]] = deque(maxlen=_MAX_STEPS)
        lanes = max(1, count) if same_thread else 1
        # Deadline and rank of those that wait.  The lowest rank comes first, and of equal ranks
        # what waits longest: dictionaries keep their order, and a server has too few sessions for
        # a heap to pay off.
        self._waiting: list[dict[Attachment, tuple[float, float]]] = [{} for _ in range(lanes)]
        self._work = [threading.Condition(self.lock) for _ in range(lanes)]
        self._step_ended = threading.Condition(self.lock)
        self._stepping: dict[Attachment, float] = {}  # the start of each step
        self._threads = [
            threading.Thread(target=self._run, args=(i % lanes,), name=f"wlk-step-{i}", daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """Count the sessions that are attached and not spare."""
        return sum(not attachment.is_spare for attachment in list(self._attachments))

    @property
    def lateness(self) -> float:
        """
        The 99th percentile of the lateness of the steps of the last ten seconds.

        Seconds from the deadline to the end of a step, negative where it ended before; 0 without
        sessions, and while fewer than ten steps were made.
        """
        with self.lock:
            since = self.clock() - _WINDOW_SECONDS
            found = [lateness for ended, lateness in self._steps if ended >= since]
        return float(np.percentile(found, 99)) if len(self) and len(found) >= _MIN_STEPS else 0.0

    def longest_step(self, *, is_spare: bool) -> float:
        """Return how many seconds the oldest step of a kind has lasted; 0 where none runs."""
        with self.lock:
            now = self.clock()
            steps = self._stepping.items()
            found = [now - began for each, began in steps if each.is_spare is is_spare]
        return max(found, default=0.0)

    def attach(
        self,
        session: Stepped,
        on_events: Callable[[list[Event]], object],
        *,
        is_spare: bool = False,
    ) -> Attachment:
        """
        Step *session* from now on; until it is over or detached, only the scheduler may step it.

        `on_events` is called with one or more events, in their order and in the thread that steps;
        if it raises, the session is detached and the error is logged.  A session that `is_spare`
        has no deadline: it is stepped while no other one waits.

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
        attachment.notify()  # the session may have received audio before
        return attachment

    def step(self) -> bool:
        """Make the step that is due first, in the calling thread; return whether there was one."""
        return any(self._step_lane(lane) for lane in range(len(self._work)))

    def close(self) -> None:
        """Detach every session after its running step, and end the threads; may be called again."""
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
        """Forget *attachment*; see `Attachment.detach`."""
        with self.lock:
            self._attachments.discard(attachment)
            self._waiting[attachment.lane].pop(attachment, None)
            attachment.is_detached = True
            while waits and attachment in self._stepping:
                self._step_ended.wait()

    def enqueue(self, attachment: Attachment) -> None:
        """Queue a step of *attachment* if there is one to make; the caller has the lock."""
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
        """Make the step that is due first in *lane*; never raises what a session raised."""
        with self.lock:
            waiting = self._waiting[lane]
            if not waiting:
                return False
            attachment = min(waiting, key=lambda each: waiting[each][1])
            deadline, _ = waiting.pop(attachment)
            began = self._stepping[attachment] = self.clock()
        try:
            events = attachment.session.step()
        except KeyboardInterrupt:
            raise  # of the user's terminal, where the program calls `step`
        except BaseException as error:
            _LOGGER.warning("a session failed", exc_info=True)
            events = attachment.session.fail(as_failure(error))
        now = self.clock()
        if events and not attachment.is_detached:  # before another thread may step the session
            try:
                attachment.on_events(events)
            except Exception:  # as of an event loop that is closed
                _LOGGER.exception("the callback of a session raised; the session is detached")
                self.drop(attachment, waits=False)
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
