"""Run sessions of a loaded backend, and measure how late their chunks are done."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
import gc
import math
import os
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench import config as configuration
from wlk_bench.capacity.timed_session import TimedSession
from wlk_bench.data import load_dataset
from wlk_bench.environment import machine_cpu_seconds, resident_bytes
from wlk_bench.errors import CapacityError
from wlk_core.processor import SAMPLE_RATE
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from wlk_bench.config import RunConfig
    from wlk_core.backend import Backend
    from wlk_serve.scheduler import Attachment

_POLL_SECONDS = 0.02
_MIN_STREAMS = 8  # that share the machine while its throughput is measured
_MAX_CLIPS = 32  # that streams take in turn
_UNBOUNDED = 1e9  # seconds of burst: audio before a run is sent at once
_GOLDEN_RATIO = (5**0.5 - 1) / 2


class CpuClock:
    """
    A clock that the processor time of this process moves; it jumps over the time without work.

    A step that runs alone takes as long on it as on a core of its own, whatever else the machine
    does.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.idle_seconds = 0.0  #: that were jumped over
        self._last = time.process_time()

    def __call__(self) -> float:
        """Return the time of the last reading, in seconds."""
        return self.now

    def read(self) -> float:
        """Let the processor time since the last reading pass, and return the time."""
        reading = time.process_time()
        self.now += reading - self._last
        self._last = reading
        return self.now

    def skip_to(self, moment: float) -> None:
        """Jump to *moment*, where it lies in the future."""
        self.idle_seconds += max(0.0, moment - self.now)
        self.now = max(self.now, moment)

    def leave_out(self) -> None:
        """Do not count the processor time since the last reading."""
        self._last = time.process_time()


@attrs.frozen(kw_only=True)
class PacedRun:
    """
    Sessions whose audio came in real time.

    Attributes:
        sessions: how many ran.
        p99_delay: 99th percentile of the seconds from the arrival of a chunk until it was done.
        p99_lateness: the same from the deadline of the chunk; negative where it was done before.
        utilisation: share of the cores of the measurement that this process kept busy.
        other_cores: cores that other processes used meanwhile; None where it cannot be read.
        session_bytes: resident memory since the backend was loaded, divided by the sessions; None
            where it cannot be read.

    """

    sessions: int
    p99_delay: float
    p99_lateness: float
    utilisation: float
    other_cores: float | None
    session_bytes: float | None


@attrs.frozen(kw_only=True)
class Bench:
    """
    A loaded backend, the audio of its sessions, and the clock by which they are measured.

    Attributes:
        backend: the loaded backend.
        stream_arguments: language, task and options of each stream.
        clips: audio, one clip for each stream in turn; a stream repeats its clip.
        tick_seconds: of audio in a chunk, and from its arrival to its deadline.
        workers: threads that step sessions.
        cores: that the process may use.
        is_cpu_clock: whether a single worker runs by the processor time of the process, so that it
            has a core of its own on a machine that is shared; else by the wall clock.
        idle_bytes: resident memory before any session.
        drain_seconds: for chunks that are not done when the audio of a run is over.

    """

    backend: Backend
    stream_arguments: Mapping[str, Any]
    clips: Sequence[NDArray[np.float32]]
    tick_seconds: float
    workers: int
    cores: int
    is_cpu_clock: bool = False
    idle_bytes: int | None = attrs.field(factory=resident_bytes)
    drain_seconds: float = 20.0

    def throughput(self, seconds: float) -> float:
        """Return the seconds of audio decoded in a second while all workers are busy."""
        count = max(_MIN_STREAMS, 4 * self.workers)
        rounds = self._rounds(seconds)
        with self._open(count, lambda _arrivals: None) as run:
            began = run.now
            run.send_at_once([rounds] * count)
            elapsed = run.now - began
        return count * rounds * self.tick_seconds / elapsed

    def paced_run(self, sessions: int, seconds: float) -> PacedRun:
        """
        Run *sessions* in real time for *seconds*; chunks that never end count as they wait.

        Each session decodes up to as much audio before: streams that began together would cost
        most together, because the audio that is decoded again grows until words are committed.
        Multiples of the golden ratio spread any number of sessions evenly over that cycle.
        """
        gc.collect()
        rounds = self._rounds(seconds)
        begun = [int(index * _GOLDEN_RATIO % 1.0 * rounds) for index in range(sessions)]
        arrivals = sorted(
            ((k + 1 + index / sessions) * self.tick_seconds, index, begun[index] + k)
            for k in range(rounds)
            for index in range(sessions)
        )
        delays: list[float] = []
        wall, machine, process = time.monotonic(), machine_cpu_seconds(), time.process_time()
        with self._open(
            sessions, lambda done: delays.extend(run.now - arrival for arrival in done)
        ) as run:
            run.send_at_once(begun)
            delays.clear()
            cpu, began, idle = time.process_time(), run.now, run.idle_seconds
            for arrival, index, number in arrivals:
                run.wait_until(began + arrival)
                run.send(index, number, began + arrival)
            elapsed = run.now - began
            busy = elapsed - (run.idle_seconds - idle)
            if not self.is_cpu_clock:
                busy = time.process_time() - cpu
            run.drain(self.drain_seconds)
            memory = resident_bytes()
            delays += [run.now - arrival for each in run.sessions for arrival in each.waiting]
        wall, process = time.monotonic() - wall, time.process_time() - process
        machine_after = machine_cpu_seconds()
        p99 = float(np.percentile(delays, 99))
        return PacedRun(
            sessions=sessions,
            p99_delay=p99,
            p99_lateness=p99 - self.tick_seconds,
            utilisation=min(1.0, busy / (elapsed * self.cores)),
            other_cores=None
            if machine is None or machine_after is None
            else max(0.0, (machine_after - machine - process) / wall),
            session_bytes=None
            if self.idle_bytes is None or memory is None
            else max(0, memory - self.idle_bytes) / sessions,
        )

    def _rounds(self, seconds: float) -> int:
        """Return the chunks of each session in that many seconds."""
        return max(1, round(seconds / self.tick_seconds))

    @contextmanager
    def _open(self, count: int, on_done: Callable[[list[float]], object]) -> Iterator[_Sessions]:
        clock = CpuClock() if self.is_cpu_clock else None
        with ExitStack() as opened:
            processors = []
            for _ in range(count):
                processors.append(self.backend.create_processor(**self.stream_arguments))
                opened.callback(processors[-1].close)
            scheduler = opened.enter_context(
                Scheduler(
                    workers=0 if clock else self.workers,
                    same_thread=self.backend.spec.thread_affinity == "same-thread",
                    clock=clock or time.monotonic,
                    tick_seconds=self.tick_seconds,
                    burst_seconds=_UNBOUNDED,
                )
            )
            sessions = [TimedSession(each, self.tick_seconds, on_done) for each in processors]
            yield _Sessions(
                sessions=sessions,
                # A consumer of the events that costs nothing.
                attachments=[scheduler.attach(s, lambda _events: None) for s in sessions],
                scheduler=scheduler,
                bench=self,
                clock=clock,
            )
            for session in sessions:
                session.check()


@attrs.frozen(kw_only=True)
class _Sessions:
    """
    Open sessions on a scheduler, and the audio that they are sent.

    By the wall clock (`clock` None) the workers of the scheduler step the sessions, and this
    thread waits; by a CpuClock this thread makes the steps.
    """

    sessions: list[TimedSession]
    attachments: list[Attachment]
    scheduler: Scheduler
    bench: Bench
    clock: CpuClock | None

    @property
    def now(self) -> float:
        """Seconds by the clock of the measurement."""
        return self.clock.read() if self.clock else time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds without work; 0 by the wall clock, which does not count them."""
        return self.clock.idle_seconds if self.clock else 0.0

    def send(self, index: int, number: int, arrival: float) -> None:
        """Send a session its chunk of that number."""
        clip = self.bench.clips[index % len(self.bench.clips)]
        samples = round(self.bench.tick_seconds * SAMPLE_RATE)
        chunk = np.take(clip, range(number * samples, (number + 1) * samples), mode="wrap")
        if self.clock:
            self.clock.leave_out()  # cutting the chunk is the work of a client
        self.sessions[index].arrive(chunk, arrival)
        self.attachments[index].notify()

    def send_at_once(self, chunks: Sequence[int]) -> None:
        """Send each session that many chunks, and wait until they are decoded."""
        for index, count in enumerate(chunks):
            for number in range(count):
                self.send(index, number, 0.0)
        self.drain()

    def wait_until(self, moment: float) -> None:
        """Let the sessions work until *moment*."""
        if self.clock is None:
            time.sleep(max(0.0, moment - time.monotonic()))
            return
        while self.clock.now < moment and self.scheduler.step():
            self.clock.read()
        self.clock.skip_to(moment)

    def drain(self, seconds: float = math.inf) -> None:
        """Let the sessions work until every chunk is decoded, or for *seconds* at most."""
        if self.clock is not None:
            while self.scheduler.step():
                self.clock.read()
            return
        last = time.monotonic() + seconds
        while any(session.waiting for session in self.sessions) and time.monotonic() < last:
            time.sleep(_POLL_SECONDS)


@contextmanager
def open_bench(
    *,
    backend: str,
    model: str | None,
    options: tuple[str, ...],
    language: str | None,
    data: str,
    tick: float,
    cores: int | None,
    clock: str,
) -> Iterator[tuple[Bench, RunConfig]]:
    """
    Load *backend* and yield what measures it; see `wlk-bench capacity` for the arguments.

    Raises:
        BackendUnavailable, OptionError: see wlk_core.load_backend.
        CapacityError: there are fewer cores.
        DataError: the data cannot be used.

    """
    dataset = load_dataset(data)
    conditions: dict[str, Any] = {
        "model": model, "language": language, "chunk_seconds": tick, "is_paced": True
    }  # fmt: skip
    config, spec = configuration.prepare(dataset, backend, options=options, **conditions)
    if "tick_seconds" in {*config.stream_options} - {*config.stream_arguments}:
        options = (*options, f"tick_seconds={tick:g}")
        config, spec = configuration.prepare(dataset, backend, options=options, **conditions)
    is_cpu_clock = clock == "cpu"
    with (
        _limited_cores(1 if is_cpu_clock else cores) as count,
        configuration.load(config, spec) as loaded,
    ):
        loaded.warmup()
        clips = [  # without the silences that are reported instead of sent
            np.concatenate([part for part in sample.audio() if isinstance(part, np.ndarray)])
            for sample in dataset.samples[:_MAX_CLIPS]
        ]
        yield (
            Bench(
                backend=loaded,
                stream_arguments={"language": config.language, **config.stream_arguments},
                clips=clips,
                tick_seconds=tick,
                workers=1 if is_cpu_clock else spec.max_concurrent_calls or count,
                cores=count,
                is_cpu_clock=is_cpu_clock,
            ),
            config,
        )


@contextmanager
def _limited_cores(count: int | None) -> Iterator[int]:
    """Keep this process, and the threads that it starts, on *count* cores; yield how many."""
    has_affinity = hasattr(os, "sched_setaffinity")
    available = os.sched_getaffinity(0) if has_affinity else set(range(os.cpu_count() or 1))
    if count is None or count == len(available):
        yield len(available)
        return
    if count > len(available) or not has_affinity:
        some = "at most " if has_affinity else ""  # elsewhere no process can be kept on some cores
        raise CapacityError(f"expected --cores of {some}{len(available)}, got {count}")
    os.sched_setaffinity(0, set(sorted(available)[:count]))
    try:
        yield count
    finally:
        os.sched_setaffinity(0, available)
