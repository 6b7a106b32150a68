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
_MIN_STREAMS = 8  # concurrent streams while the throughput is measured
_MAX_CLIPS = 32  # clips that are assigned to the streams in turn
_UNBOUNDED = 1e9  # seconds of burst, because audio before a run is sent all at once
_GOLDEN_RATIO = (5**0.5 - 1) / 2


class CpuClock:
    """
    A clock that advances with the processor time of this process and skips idle time.

    A step that runs alone takes as long on this clock as on a core of its own, whatever else the
    machine does.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.idle_seconds = 0.0  #: skipped so far
        self._last = time.process_time()

    def __call__(self) -> float:
        """Return the time of the last reading, in seconds."""
        return self.now

    def read(self) -> float:
        """Advance by the processor time since the last reading, and return the time."""
        reading = time.process_time()
        self.now += reading - self._last
        self._last = reading
        return self.now

    def skip_to(self, moment: float) -> None:
        """Skip to *moment* if it lies in the future."""
        self.idle_seconds += max(0.0, moment - self.now)
        self.now = max(self.now, moment)

    def leave_out(self) -> None:
        """Ignore the processor time since the last reading."""
        self._last = time.process_time()


@attrs.frozen(kw_only=True)
class PacedRun:
    """
    The figures of a run in which sessions received audio in real time.

    Attributes:
        sessions: how many ran.
        p99_delay: 99th percentile of the seconds from the arrival of a chunk until it was done.
        p99_lateness: the same from the deadline of the chunk; negative if it was done before.
        utilisation: share of the measured cores that this process kept busy.
        other_cores: cores that other processes used meanwhile; None if that cannot be read.
        session_bytes: growth of resident memory since the backend was loaded, divided by the
            sessions; None if memory cannot be read.

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
    A loaded backend, the audio of its sessions, and the clock that times them.

    Attributes:
        backend: the loaded backend.
        stream_arguments: language, task and options of each stream.
        clips: audio, assigned to the streams in turn; each stream repeats its clip.
        tick_seconds: seconds of audio in a chunk, and from its arrival to its deadline.
        workers: threads that step sessions.
        cores: cores that the process may use.
        is_cpu_clock: whether a single worker is timed by the processor time of the process, as if
            it had a core of its own on a shared machine, instead of by the wall clock.
        idle_bytes: resident memory before any session.
        drain_seconds: how long to wait for unfinished chunks after the audio of a run.

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
        chunks = self._chunks_in(seconds)
        with self._open(count, lambda _arrivals: None) as run:
            began = run.now
            run.send_at_once([chunks] * count)
            elapsed = run.now - began
        return count * chunks * self.tick_seconds / elapsed

    def paced_run(self, sessions: int, seconds: float) -> PacedRun:
        """
        Run *sessions* in real time for *seconds*; an unfinished chunk counts with its wait so far.

        Before that, each session decodes a different length of audio, up to *seconds*: sessions
        that began together would all be most expensive at the same time, because the audio that is
        decoded again grows until words are committed.  Multiples of the golden ratio spread any
        number of sessions evenly over that cycle.
        """
        gc.collect()
        chunks = self._chunks_in(seconds)
        already = [int(index * _GOLDEN_RATIO % 1.0 * chunks) for index in range(sessions)]
        arrivals = sorted(
            ((k + 1 + index / sessions) * self.tick_seconds, index, already[index] + k)
            for k in range(chunks)
            for index in range(sessions)
        )
        delays: list[float] = []
        wall_start, machine_start = time.monotonic(), machine_cpu_seconds()
        process_start = time.process_time()
        with self._open(
            sessions, lambda done: delays.extend(run.now - arrival for arrival in done)
        ) as run:
            run.send_at_once(already)
            delays.clear()
            cpu_began, began, idle_began = time.process_time(), run.now, run.idle_seconds
            for arrival, index, number in arrivals:
                run.wait_until(began + arrival)
                run.send(index, number, began + arrival)
            elapsed = run.now - began
            if self.is_cpu_clock:
                busy = elapsed - (run.idle_seconds - idle_began)
            else:
                busy = time.process_time() - cpu_began
            run.drain(self.drain_seconds)
            memory = resident_bytes()
            delays += [run.now - arrival for each in run.sessions for arrival in each.waiting]
        wall = time.monotonic() - wall_start
        process = time.process_time() - process_start
        machine_end = machine_cpu_seconds()
        other_cores = session_bytes = None
        if machine_start is not None and machine_end is not None:
            other_cores = max(0.0, (machine_end - machine_start - process) / wall)
        if self.idle_bytes is not None and memory is not None:
            session_bytes = max(0, memory - self.idle_bytes) / sessions
        p99 = float(np.percentile(delays, 99))
        return PacedRun(
            sessions=sessions,
            p99_delay=p99,
            p99_lateness=p99 - self.tick_seconds,
            utilisation=min(1.0, busy / (elapsed * self.cores)),
            other_cores=other_cores,
            session_bytes=session_bytes,
        )

    def _chunks_in(self, seconds: float) -> int:
        """Return the number of chunks in that many seconds of one session."""
        return max(1, round(seconds / self.tick_seconds))

    @contextmanager
    def _open(self, count: int, on_done: Callable[[list[float]], object]) -> Iterator[_Sessions]:
        clock = CpuClock() if self.is_cpu_clock else None
        with ExitStack() as stack:
            processors = []
            for _ in range(count):
                processors.append(self.backend.create_processor(**self.stream_arguments))
                stack.callback(processors[-1].close)
            scheduler = stack.enter_context(
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
                # Events are discarded, so that consuming them costs nothing.
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

    On the wall clock (`clock` is None) the workers of the scheduler step the sessions while this
    thread waits; on a CpuClock this thread steps them itself.
    """

    sessions: list[TimedSession]
    attachments: list[Attachment]
    scheduler: Scheduler
    bench: Bench
    clock: CpuClock | None

    @property
    def now(self) -> float:
        """Seconds on the clock of the measurement."""
        return self.clock.read() if self.clock else time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds without work; 0 on the wall clock, which does not count them."""
        return self.clock.idle_seconds if self.clock else 0.0

    def send(self, index: int, number: int, arrival: float) -> None:
        """Send chunk *number* to session *index*."""
        clip = self.bench.clips[index % len(self.bench.clips)]
        samples = round(self.bench.tick_seconds * SAMPLE_RATE)
        chunk = np.take(clip, range(number * samples, (number + 1) * samples), mode="wrap")
        if self.clock:
            self.clock.leave_out()  # cutting chunks is the client's work
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
        """Let the sessions work until every chunk is decoded, or for at most *seconds*."""
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
    Load *backend* and yield its bench; see `wlk-bench capacity` for the arguments.

    Raises:
        BackendUnavailable, OptionError: see wlk_core.load_backend.
        CapacityError: the machine has fewer cores.
        DataError: the data cannot be used.

    """
    dataset = load_dataset(data)
    conditions: dict[str, Any] = {
        "model": model, "language": language, "chunk_seconds": tick, "is_paced": True
    }  # fmt: skip
    config, spec = configuration.prepare(dataset, backend, options=options, **conditions)
    has_default_tick = "tick_seconds" not in config.stream_arguments
    if "tick_seconds" in config.stream_options and has_default_tick:
        options = (*options, f"tick_seconds={tick:g}")
        config, spec = configuration.prepare(dataset, backend, options=options, **conditions)
    is_cpu_clock = clock == "cpu"
    with (
        _limited_cores(1 if is_cpu_clock else cores) as count,
        configuration.load(config, spec) as loaded,
    ):
        loaded.warmup()
        clips = [  # without pauses, which are reported and not sent
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
    """Restrict this process, and the threads it starts, to *count* cores; yield how many."""
    has_affinity = hasattr(os, "sched_setaffinity")
    available = os.sched_getaffinity(0) if has_affinity else set(range(os.cpu_count() or 1))
    if count is None or count == len(available):
        yield len(available)
        return
    if not has_affinity:  # the process always uses all cores
        raise CapacityError(f"expected --cores of {len(available)}, got {count}")
    if count > len(available):
        raise CapacityError(f"expected --cores of at most {len(available)}, got {count}")
    os.sched_setaffinity(0, set(sorted(available)[:count]))
    try:
        yield count
    finally:
        os.sched_setaffinity(0, available)
