"""
How many sessions one model carries: lateness, voice activity detection, bytes, hours.

The scripted engine is run in simulated time: the CPU time of each step is measured, and a clock of
the benchmark moves by it.  So one worker has a core of its own whatever else the machine does.
Models of `digits` are run in real time, by the wall clock, and share the machine with its load.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_conformance.scripted import ScriptedBackend
from wlk_core import BackendUnavailable, Session, Timeline, load_backend
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import Scheduler
from wlk_core.testing import CodedToken, encode, load_clip
from wlk_core.vad import SilenceGate, SileroDetector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from wlk_core import Event

CHUNK_SECONDS = 0.5
CHUNK = round(CHUNK_SECONDS * SAMPLE_RATE)
TARGET = 0.05  # seconds of lateness at the 99th percentile
MILLI = 1000.0


class TimedSession(Session):
    """A session that measures how long each chunk takes from its arrival to the end of its step."""

    def __init__(self, processor: Any, clock: Callable[[], float], **options: Any) -> None:
        super().__init__(processor, **options)
        self._clock = clock
        self._arrivals: list[float] = []
        self.delays: list[float] = []

    def arrive(self, chunk: NDArray[np.float32], arrival: float) -> None:
        """Receive a chunk of CHUNK samples that arrived at *arrival*."""
        self._arrivals.append(arrival)
        self.receive(chunk)

    def step(self) -> list[Event]:
        """Step, and count the chunks that are done."""
        events = super().step()
        waiting = round(self.backlog_seconds / CHUNK_SECONDS) + self.has_work
        done = max(0, len(self._arrivals) - waiting)
        self.delays += [self._clock() - arrival for arrival in self._arrivals[:done]]
        del self._arrivals[:done]
        return events

    def end(self) -> list[float]:
        """Return the delays; a chunk that is not done counts with its delay so far."""
        return self.delays + [self._clock() - arrival for arrival in self._arrivals]


@attrs.define
class SimulatedClock:
    """A clock that the CPU time of a step moves, and nothing else."""

    now: float = 0.0
    _began: float | None = None

    def __call__(self) -> float:
        """Return the simulated time, within a step too."""
        return self.now + (0.0 if self._began is None else time.thread_time() - self._began)

    def measure(self, step: Callable[[], bool]) -> bool:
        """Make a step and let its CPU time pass."""
        self._began = time.thread_time()
        made = step()
        self.now, self._began = self(), None
        return made


def speech() -> NDArray[np.float32]:
    """Return a minute of coded speech: 120 words with a pause after each."""
    return encode([CodedToken(1 + i % 10, 6 * i, 4) for i in range(125)], cells=750)


def schedule(sessions: int, seconds: float) -> Iterator[tuple[float, int, int]]:
    """Return (arrival, session, first sample) of every chunk, the sessions evenly apart."""
    for number in range(round(seconds / CHUNK_SECONDS)):
        for session in range(sessions):
            arrival = (number + 1 + session / sessions) * CHUNK_SECONDS
            yield arrival, session, number * CHUNK


def percentiles(delays: list[float], *, since: str = "arrival") -> str:
    """Return the delays in milliseconds."""
    p50, p95, p99 = np.percentile(delays, [50, 95, 99]) * MILLI
    return f"p50 {p50:7.1f}  p95 {p95:7.1f}  p99 {p99:7.1f} ms from {since}"


def scripted(counts: list[int], seconds: float) -> None:
    """Print the delay of steps of the scripted engine, one worker, in simulated time."""
    print(
        f"scripted sessions on one core, simulated time, {seconds:g} s, chunks of "
        f"{CHUNK_SECONDS} s, LocalAgreement at a tick of 1 s, no voice activity detection"
    )
    audio, carried = speech(), {"arrival": 0, "deadline": 0}
    for count in counts:
        backend, clock = ScriptedBackend(), SimulatedClock()
        scheduler = Scheduler(workers=0, clock=clock, max_lateness=1e9, tick_seconds=CHUNK_SECONDS)
        sessions = [TimedSession(backend.create_processor(), clock) for _ in range(count)]
        attachments = [scheduler.attach(session, _drop, call=_directly) for session in sessions]
        gc.collect()
        began = clock.now
        busy = 0.0
        for arrival, index, first in schedule(count, seconds):
            while clock.now < began + arrival:
                before = clock.now
                if not clock.measure(scheduler.step):
                    break
                busy += clock.now - before
            clock.now = max(clock.now, began + arrival)
            sessions[index].arrive(audio[first : first + CHUNK], began + arrival)
            attachments[index].notify()
        while clock.measure(scheduler.step):
            pass
        delays = [delay for session in sessions for delay in session.end()]
        p99 = float(np.percentile(delays, 99))
        for since, bound in (("arrival", TARGET), ("deadline", TARGET + CHUNK_SECONDS)):
            if p99 <= bound:
                carried[since] = max(carried[since], count)
        print(f"  {count:5} sessions: busy {busy / seconds:4.0%}  {percentiles(delays)}")
        scheduler.close()
    print(
        f"  sessions with a p99 of at most {TARGET * MILLI:.0f} ms: {carried['arrival']} from the "
        f"arrival, {carried['deadline']} from the deadline (target >= 1000)"
    )


def _drop(_events: list[Event]) -> None:
    """Stand for a consumer that costs nothing."""


def _directly(function: Callable[[], object]) -> None:
    function()


def voice_activity_detection(seconds: float = 60.0) -> None:
    """Print the CPU time of Silero for a second of speech and of silence."""
    clip = load_clip("demo").audio
    talk = np.resize(clip, round(seconds * SAMPLE_RATE))
    for name, audio in (("speech", talk), ("silence", np.zeros_like(talk))):
        gate = SilenceGate(SileroDetector())
        began = time.thread_time()
        for first in range(0, len(audio), CHUNK):
            gate.push(audio[first : first + CHUNK])
        cost = (time.thread_time() - began) / seconds
        print(f"voice activity detection: {cost * MILLI:.2f} ms of CPU per second of {name}")


def memory(count: int = 20) -> None:
    """Print the bytes that Python holds for a session: new, and after a minute of speech."""
    audio = speech()
    for name, is_gated in (("without", False), ("with", True)):
        backend = ScriptedBackend()
        gc.collect()
        tracemalloc.start()
        sessions = [
            Session(
                backend.create_processor(),
                gate=SilenceGate(SileroDetector()) if is_gated else None,
            )
            for _ in range(count)
        ]
        new = tracemalloc.get_traced_memory()[0] / count
        for session in sessions:
            for first in range(0, len(audio), CHUNK):
                session.feed(audio[first : first + CHUNK])
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] / count
        tracemalloc.stop()
        print(
            f"bytes per session {name} voice activity detection: {new / 1e3:.0f} kB new, "
            f"{used / 1e3:.0f} kB after a minute (native memory of Silero not counted)"
        )


def hours(duration: float) -> None:
    """Print the cost of an event at the end of *duration* hours against that of minute 1."""
    audio, timeline = speech(), Timeline()
    session = Session(ScriptedBackend().create_processor())
    minutes: list[float] = []
    for _ in range(round(duration * 60)):
        began, events = time.thread_time(), 0
        for first in range(0, len(audio), CHUNK):
            for event in session.feed(audio[first : first + CHUNK]):
                timeline.add(event)
                events += 1
        session.commit()
        for event in session.feed(audio[:0]):
            timeline.add(event)
        minutes.append((time.thread_time() - began) / events)
    early, late = float(np.median(minutes[:3])), float(np.median(minutes[-3:]))
    print(
        f"cost of an event, timeline included: {early * MILLI:.2f} ms of CPU in the first minutes, "
        f"{late * MILLI:.2f} ms after {duration:g} h ({late / early:.2f}x)"
    )


@attrs.frozen
class Contender:
    """A backend with its digits model, in real time."""

    name: str
    load_options: dict[str, Any]
    stream_options: dict[str, Any]


CONTENDERS = (
    Contender("faster-whisper", {"cpu_threads": 1}, {"tick_seconds": 0.5}),
    Contender("voxtral-hf", {}, {}),
)


def real_time(contender: Contender, counts: list[int], seconds: float) -> None:
    """Print the delay of steps in real time: a thread for each session, and the scheduler."""
    try:
        backend = load_backend(contender.name, "digits", **contender.load_options)
    except BackendUnavailable as error:
        print(f"{contender.name}: {error}")
        return
    with backend:
        backend.warmup()
        for count, (name, drive) in itertools.product(
            counts, (("a thread each", _by_threads), ("scheduler", _by_scheduler))
        ):
            sessions = [
                TimedSession(
                    backend.create_processor(**contender.stream_options),
                    time.monotonic,
                    max_backlog_seconds=1e9,
                )
                for _ in range(count)
            ]
            drive(backend, sessions, seconds)
            delays = [delay for session in sessions for delay in session.end()]
            print(f"  {contender.name:14} {count:3} sessions, {name:13}: {percentiles(delays)}")


def _clip() -> NDArray[np.float32]:
    return np.resize(load_clip("demo").audio, 600 * SAMPLE_RATE)


def _by_threads(_backend: Any, sessions: list[TimedSession], seconds: float) -> None:
    audio, began = _clip(), time.monotonic()

    def run(index: int) -> None:
        for arrival, number, first in schedule(len(sessions), seconds):
            if number == index:
                time.sleep(max(0.0, began + arrival - time.monotonic()))
                sessions[index].arrive(audio[first : first + CHUNK], began + arrival)
                while sessions[index].has_work:
                    sessions[index].step()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _by_scheduler(backend: Any, sessions: list[TimedSession], seconds: float) -> None:
    audio = _clip()
    with Scheduler.for_backend(backend, max_lateness=1e9, tick_seconds=0.5) as scheduler:
        attachments = [scheduler.attach(session, _drop, call=_directly) for session in sessions]
        began = time.monotonic()
        for arrival, number, first in schedule(len(sessions), seconds):
            time.sleep(max(0.0, began + arrival - time.monotonic()))
            sessions[number].arrive(audio[first : first + CHUNK], began + arrival)
            attachments[number].notify()
        while any(session.has_work for session in sessions):
            time.sleep(0.05)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripted", type=int, nargs="*", default=[250, 500, 1000, 2000])
    parser.add_argument("--scripted-seconds", type=float, default=20.0)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--sessions", type=int, nargs="*", default=[8, 24])
    parser.add_argument("--seconds", type=float, default=20.0, help="real time for each count")
    arguments = parser.parse_args()
    scripted(arguments.scripted, arguments.scripted_seconds)
    voice_activity_detection()
    memory()
    hours(arguments.hours)
    print(
        f"models of digits in real time by the wall clock, {arguments.seconds:g} s, chunks of "
        f"{CHUNK_SECONDS} s, with whatever else the machine does"
    )
    for contender in CONTENDERS:
        real_time(contender, arguments.sessions, arguments.seconds)


if __name__ == "__main__":
    main()
