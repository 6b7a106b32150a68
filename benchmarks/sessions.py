"""
How many sessions one model carries: lateness, voice activity detection, bytes, hours.

The scripted engine is run in simulated time: the CPU time of the process moves a clock.  So one
worker has a core of its own whatever else the machine does.  `wlk-bench capacity` measures how many
sessions of a model a machine carries in real time.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_bench.capacity.measurement import CpuClock
from wlk_bench.capacity.timed_session import TimedSession
from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode, load_clip
from wlk_core import Session, Timeline
from wlk_core.processor import SAMPLE_RATE
from wlk_core.vad import SilenceGate, SileroDetector
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_core import Event

CHUNK_SECONDS = 0.5
CHUNK = round(CHUNK_SECONDS * SAMPLE_RATE)
TARGET = 0.05  # seconds of lateness at the 99th percentile
MILLI = 1000.0


def speech() -> NDArray[np.float32]:
    """Return a minute of coded speech: 120 words with a pause after each."""
    return encode([CodedToken(1 + i % 10, 6 * i, 4) for i in range(125)], cells=750)


def schedule(sessions: int, seconds: float) -> list[tuple[float, int, int]]:
    """Return (arrival, session, first sample) of every chunk; sessions begin within a second."""
    return sorted(
        ((number + 1) * CHUNK_SECONDS + session / sessions, session, number * CHUNK)
        for number in range(round(seconds / CHUNK_SECONDS))
        for session in range(sessions)
    )


def percentiles(delays: list[float]) -> str:
    """Return the delays in milliseconds."""
    p50, p95, p99 = np.percentile(delays, [50, 95, 99]) * MILLI
    return f"p50 {p50:7.1f}  p95 {p95:7.1f}  p99 {p99:7.1f} ms from arrival"


def scripted(counts: list[int], seconds: float) -> None:
    """Print the delay of steps of the scripted engine, one worker, in simulated time."""
    print(
        f"scripted sessions on one core, simulated time, {seconds:g} s, chunks of "
        f"{CHUNK_SECONDS} s, LocalAgreement at a tick of 1 s, no voice activity detection"
    )
    audio, carried = speech(), {"arrival": 0, "deadline": 0}
    for count in counts:
        delays, busy = _simulate(audio, count, seconds)
        p99 = float(np.percentile(delays, 99))
        for since, bound in (("arrival", TARGET), ("deadline", TARGET + CHUNK_SECONDS)):
            if p99 <= bound:
                carried[since] = max(carried[since], count)
        print(f"  {count:5} sessions: busy {busy:4.0%}  {percentiles(delays)}")
    print(
        f"  sessions with a p99 of at most {TARGET * MILLI:.0f} ms: {carried['arrival']} from the "
        f"arrival, {carried['deadline']} from the deadline (target >= 1000)"
    )


def _simulate(audio: NDArray[np.float32], count: int, seconds: float) -> tuple[list[float], float]:
    """Return the delay of each chunk, and the share of the time in which the core was busy."""
    backend, clock = ScriptedBackend(), CpuClock()
    delays: list[float] = []
    done: list[float] = []
    with Scheduler(workers=0, clock=clock) as scheduler:
        sessions = [_timed(backend.create_processor(), done.extend) for _ in range(count)]
        attachments = [scheduler.attach(session, _drop, call=_directly) for session in sessions]
        gc.collect()
        clock.read()
        began = clock.now

        def step() -> bool:
            made = scheduler.step()
            clock.read()
            delays.extend(clock.now - arrival for arrival in done)
            done.clear()
            return made

        for arrival, index, first in schedule(count, seconds):
            while clock.now < began + arrival and step():
                pass
            clock.skip_to(began + arrival)
            sessions[index].arrive(audio[first : first + CHUNK], began + arrival)
            attachments[index].notify()
        while step():
            pass
    return delays, 1 - clock.idle_seconds / (clock.now - began)


def _drop(_events: list[Event]) -> None:
    """Stand for a consumer that costs nothing."""


def _directly(function: Callable[[], object]) -> None:
    """Call in the same thread."""
    function()


def voice_activity_detection(seconds: float = 20.0) -> None:
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


def memory(count: int = 5) -> None:
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


def _timed(processor: Any, on_done: Callable[[list[float]], object]) -> TimedSession:
    """Return a session that reports the arrivals of the chunks that are done."""
    return TimedSession(processor, CHUNK_SECONDS, on_done)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripted", type=int, nargs="*", default=[400, 600, 800, 1000])
    parser.add_argument("--scripted-seconds", type=float, default=20.0)
    parser.add_argument("--hours", type=float, default=3.0)
    arguments = parser.parse_args()
    scripted(arguments.scripted, arguments.scripted_seconds)
    voice_activity_detection()
    memory()
    hours(arguments.hours)


if __name__ == "__main__":
    main()
