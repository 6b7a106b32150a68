"""Real sessions of a backend: what their chunks cost, and how late they are done in real time."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.capacity.clocks import CpuClock, machine_cpu_seconds
from wlk_bench.capacity.paced_run import PacedRun, Record
from wlk_bench.capacity.prediction import first_chunks
from wlk_bench.capacity.service_times import ServiceTimes
from wlk_bench.capacity.timed_session import TimedSession
from wlk_bench.environment import resident_bytes
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import End
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from wlk_core.backend import Backend
    from wlk_core.session import Event
    from wlk_serve.scheduler import Attachment

__all__ = ["Bench"]

_POLL_SECONDS = 0.02
_MIN_STREAMS = 8  # that are measured, where fewer run
_ANY_BURST = 1e9  # audio before a run is sent at once, and is due at once


@attrs.frozen(kw_only=True)
class Bench:
    """
    A loaded backend, the audio of its sessions, and the clock by which they are measured.

    Attributes:
        backend: the loaded backend.
        stream_arguments: language, task and options of each stream.
        clips: audio, one clip for each stream in turn; a stream repeats its clip.
        chunk_seconds: of audio in a chunk.
        tick_seconds: how long after its arrival a chunk is to be done.
        workers: threads that step.
        is_batching: whether the backend takes engine calls together.
        cores: that the process may use.
        is_cpu_clock: whether a single worker runs by the processor time of the process, so that it
            has a core of its own on a machine that is shared; else by the wall clock.

    """

    backend: Backend
    stream_arguments: Mapping[str, Any]
    clips: Sequence[NDArray[np.float32]]
    chunk_seconds: float
    tick_seconds: float
    workers: int
    is_batching: bool
    cores: int
    is_cpu_clock: bool = False
    idle_bytes: int | None = attrs.field(factory=resident_bytes)  #: resident before any session
    drain_seconds: float = 20.0  #: for chunks that are not done when the audio of a run is over

    def service_times(self, seconds: float, *, streams: int = 0) -> ServiceTimes:
        """
        Measure what chunks cost, with streams that get the next chunk when one is done.

        Each of *streams* has a trace of its own, up to one for each clip, because costs depend on
        what is spoken: eight of 32 clips cost 7 % less than all of them.

        Each number of streams decodes *seconds* of audio of each, and as much as a run sends before
        it begins, as fast as it can: no worker is idle, so that the time divided by the chunks is
        the cost of a chunk.
        """
        wide = min(streams, len(self.clips))
        if self.is_cpu_clock or (self.workers == 1 and not self.is_batching):
            widths = [max(_MIN_STREAMS, wide)]
        else:
            widths = [2**power for power in range(self.workers.bit_length())]
            if not self.is_batching:
                widths = [*(w for w in widths if w < self.workers), max(4 * self.workers, wide)]
        measure = self._costs_by_cpu if self.is_cpu_clock else self._costs_by_wall
        by_streams = {width: measure(width, 2 * seconds) for width in widths}
        if not self.is_batching:  # the widest had all workers busy
            by_streams[self.workers] = by_streams.pop(widths[-1])
        return self._service(by_streams)

    def _service(self, by_streams: Mapping[int, tuple[tuple[float, ...], ...]]) -> ServiceTimes:
        return ServiceTimes(
            chunk_seconds=self.chunk_seconds,
            tick_seconds=self.tick_seconds,
            workers=self.workers,
            is_batching=self.is_batching,
            by_streams=by_streams,
        )

    def paced_run(self, sessions: int, seconds: float) -> PacedRun:
        """
        Run *sessions* in real time for *seconds*; chunks that never end count as they wait.

        Before, each session decodes up to as much audio, see `first_chunks`.
        """
        gc.collect()
        wall, cpu = time.monotonic(), time.process_time()
        machine = machine_cpu_seconds()
        drive = self._pace_by_cpu if self.is_cpu_clock else self._pace_by_wall
        record = drive(sessions, seconds)
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        others = machine_cpu_seconds()
        p99 = float(np.percentile(record.delays, 99))
        costs = tuple(tuple(trace) for trace in record.costs if trace)
        return PacedRun(
            sessions=sessions,
            p99_delay=p99,
            p99_lateness=p99 - self.tick_seconds,
            utilisation=min(1.0, record.busy / (record.elapsed * self.cores)),
            other_cores=None
            if machine is None or others is None
            else max(0.0, (others - machine - cpu) / wall),
            session_bytes=None
            if self.idle_bytes is None or record.memory is None
            else max(0, record.memory - self.idle_bytes) / sessions,
            service=None if self.is_batching or not costs else self._service({self.workers: costs}),
        )

    def _chunk(self, stream: int, number: int) -> NDArray[np.float32]:
        clip = self.clips[stream % len(self.clips)]
        size = round(self.chunk_seconds * SAMPLE_RATE)
        return np.take(clip, range(number * size, (number + 1) * size), mode="wrap")

    @contextmanager
    def _sessions(
        self, count: int, on_done: Callable[[int, list[float], float], object]
    ) -> Iterator[list[TimedSession]]:
        with ExitStack() as opened:
            processors = []
            for _ in range(count):
                processors.append(self.backend.create_processor(**self.stream_arguments))
                opened.callback(processors[-1].close)
            sessions = [
                TimedSession(processor, self.chunk_seconds, partial(on_done, index))
                for index, processor in enumerate(processors)
            ]
            yield sessions
            for session in sessions:
                session.check()

    def _scheduler(self, *, workers: int, clock: Callable[[], float]) -> Scheduler:
        return Scheduler.for_backend(
            self.backend,
            workers=workers,
            clock=clock,
            tick_seconds=self.tick_seconds,
            burst_seconds=_ANY_BURST,
        )

    def _costs_by_wall(self, streams: int, seconds: float) -> tuple[tuple[float, ...], ...]:
        rounds = max(2, round(seconds / self.chunk_seconds))
        costs: list[list[float]] = [[] for _ in range(streams)]
        ends: list[float] = []
        numbers = [0] * streams
        ended = threading.Semaphore(0)

        def on_done(index: int, _arrivals: list[float], seconds: float) -> None:
            costs[index].append(seconds)
            ends.append(time.perf_counter())
            if numbers[index] < rounds:
                give(index)
            else:
                ended.release()

        def release_if_over(events: list[Event]) -> None:
            if any(isinstance(event, End) for event in events):  # it has failed
                ended.release()

        def give(index: int) -> None:
            numbers[index] += 1
            sessions[index].arrive(self._chunk(index, numbers[index] - 1), time.monotonic())
            attachments[index].notify()

        with (
            self._sessions(streams, on_done) as sessions,
            self._scheduler(workers=self.workers, clock=time.monotonic) as scheduler,
        ):
            attachments = [
                scheduler.attach(each, release_if_over, call=_directly) for each in sessions
            ]
            began = time.perf_counter()
            for index in range(streams):
                give(index)
            for _ in range(streams):
                ended.acquire()
        if self.is_batching:  # the streams take turns together: each turn is a run
            return (tuple(np.diff([began, *sorted(ends)[streams - 1 :: streams]]).tolist()),)
        # What the scheduler does between steps belongs to them.
        busy = min(streams, self.workers) * (max(ends) - began)
        share = busy / sum(map(sum, costs))
        return tuple(tuple(share * cost for cost in trace) for trace in costs)

    def _costs_by_cpu(self, streams: int, seconds: float) -> tuple[tuple[float, ...], ...]:
        rounds = max(2, round(seconds / self.chunk_seconds))
        costs: list[list[float]] = [[] for _ in range(streams)]
        clock = CpuClock()
        with (
            self._sessions(streams, _drop_done) as sessions,
            self._scheduler(workers=0, clock=clock) as scheduler,
        ):
            attachments = [scheduler.attach(each, _drop, call=_directly) for each in sessions]
            for number in range(rounds):
                for index, session in enumerate(sessions):
                    chunk, began = self._chunk(index, number), clock.read()
                    session.arrive(chunk, began)
                    attachments[index].notify()
                    while scheduler.step():
                        pass
                    costs[index].append(clock.read() - began)
        return tuple(map(tuple, costs))

    def _schedule(self, sessions: int, seconds: float) -> list[tuple[float, int, int]]:
        """Return (arrival, session, number) of every chunk, the sessions spread over a chunk."""
        rounds = max(1, round(seconds / self.chunk_seconds))
        begun = first_chunks(sessions, rounds).tolist()
        return sorted(
            ((k + 1 + session / sessions) * self.chunk_seconds, session, begun[session] + k)
            for k in range(rounds)
            for session in range(sessions)
        )

    def _begin(
        self,
        sessions: list[TimedSession],
        attachments: list[Attachment],
        seconds: float,
        work: Callable[[], object],
    ) -> None:
        """Let each session decode what it has sent before the run; *work* does it, or waits."""
        rounds = max(1, round(seconds / self.chunk_seconds))
        begun = first_chunks(len(sessions), rounds).tolist()
        for index, session in enumerate(sessions):
            for number in range(begun[index]):
                session.arrive(self._chunk(index, number), 0.0)
            attachments[index].notify()
        while any(session.waiting for session in sessions):
            work()

    def _pace_by_wall(self, count: int, seconds: float) -> Record:
        delays: list[float] = []
        costs: list[list[float]] = [[] for _ in range(count)]

        def on_done(index: int, arrivals: list[float], cost: float) -> None:
            now = time.monotonic()
            delays.extend(now - arrival for arrival in arrivals)
            costs[index].extend(cost / len(arrivals) for _ in arrivals)

        with (
            self._sessions(count, on_done) as sessions,
            self._scheduler(workers=self.workers, clock=time.monotonic) as scheduler,
        ):
            attachments = [scheduler.attach(each, _drop, call=_directly) for each in sessions]
            self._begin(sessions, attachments, seconds, partial(time.sleep, _POLL_SECONDS))
            delays.clear()
            costs[:] = ([] for _ in range(count))
            cpu, began = time.process_time(), time.monotonic()
            for arrival, index, number in self._schedule(count, seconds):
                chunk = self._chunk(index, number)
                time.sleep(max(0.0, began + arrival - time.monotonic()))
                sessions[index].arrive(chunk, began + arrival)
                attachments[index].notify()
            busy, elapsed = time.process_time() - cpu, time.monotonic() - began
            last = time.monotonic() + self.drain_seconds
            while any(session.waiting for session in sessions) and time.monotonic() < last:
                time.sleep(_POLL_SECONDS)
            memory, now = resident_bytes(), time.monotonic()
            unfinished = [now - arrival for each in sessions for arrival in each.waiting]
        return Record(
            delays=delays + unfinished, costs=costs, busy=busy, elapsed=elapsed, memory=memory
        )

    def _pace_by_cpu(self, count: int, seconds: float) -> Record:
        clock = CpuClock()
        delays: list[float] = []
        costs: list[list[float]] = [[] for _ in range(count)]
        done: list[tuple[int, list[float]]] = []
        idle = spent = 0.0  # spent: on steps since the last chunk that was done

        def on_done(index: int, arrivals: list[float], _seconds: float) -> None:
            done.append((index, arrivals))

        with (
            self._sessions(count, on_done) as sessions,
            self._scheduler(workers=0, clock=clock) as scheduler,
        ):
            attachments = [scheduler.attach(each, _drop, call=_directly) for each in sessions]
            self._begin(sessions, attachments, seconds, scheduler.step)
            done.clear()
            gc.collect()
            clock.leave_out()

            def step() -> bool:
                nonlocal spent
                began = clock.now
                made = scheduler.step()
                now = clock.read()
                spent += now - began
                for index, arrivals in done:
                    delays.extend(now - arrival for arrival in arrivals)
                    costs[index].extend(spent / len(arrivals) for _ in arrivals)
                    spent = 0.0
                done.clear()
                return made

            began = clock.read()
            for arrival, index, number in self._schedule(count, seconds):
                moment = began + arrival
                while clock.now < moment and step():
                    pass
                chunk = self._chunk(index, number)
                idle += max(0.0, moment - clock.now)
                clock.skip_to(moment)
                clock.leave_out()  # the time of cutting the chunk
                sessions[index].arrive(chunk, moment)
                attachments[index].notify()
            elapsed = clock.now - began
            while step():
                pass
            memory = resident_bytes()
        return Record(
            delays=delays, costs=costs, busy=elapsed - idle, elapsed=elapsed, memory=memory
        )


def _drop(_events: list[Event]) -> None:
    """Stand for a consumer that costs nothing."""


def _drop_done(_index: int, _arrivals: list[float], _seconds: float) -> None:
    """Stand for an observer where the clock is read by the caller."""


def _directly(function: Callable[[], object]) -> None:
    function()
