"""
What sharing an engine saves: forwards and runs for streams that are due together, and delays.

Each backend is measured in one run as it was, each call for itself, and as it is declared.
Sessions in real time share the machine with whatever else runs on it.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core import BackendUnavailable, Session, load_backend
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import Scheduler
from wlk_core.testing import StreamDriver, connected_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from wlk_core import Event
    from wlk_core.plugins import EngineCalls

STEP_SECONDS = 0.08  # a step of Voxtral
MILLI = 1000.0
DRAIN_SECONDS = 30.0  # how long sessions that fall back are waited for


@attrs.frozen(kw_only=True)
class Contender:
    """A backend with its digits model."""

    name: str
    load_options: dict[str, Any]
    stream_options: dict[str, Any]
    calls_apart: int | None  #: of the engine that may overlap with profit, without batching
    due_seconds: float  #: of audio that streams are due with, in the count of forwards
    chunk_seconds: float  #: of sessions in real time
    target: float  #: seconds, p95 of a chunk that is done, with 24 sessions


CONTENDERS = (
    Contender(
        name="voxtral-hf",
        load_options={},
        stream_options={},
        calls_apart=None,
        due_seconds=STEP_SECONDS,
        chunk_seconds=0.24,
        target=0.24,
    ),
    Contender(
        name="faster-whisper",
        load_options={"cpu_threads": 1},
        stream_options={"tick_seconds": 0.5},
        calls_apart=1,
        due_seconds=0.5,
        chunk_seconds=0.5,
        target=0.25,
    ),
)


def load(contender: Contender, *, is_batching: bool = True) -> Any:
    """Return the loaded backend, warm; without batching as if its spec did not declare it."""
    backend = load_backend(contender.name, "digits", **contender.load_options)
    if not is_batching:
        spec = attrs.evolve(
            backend.spec,
            capabilities=backend.spec.capabilities - {"batching"},
            max_concurrent_calls=contender.calls_apart,
        )
        module, _, function = spec.load.partition(":")
        backend.close()
        backend = getattr(import_module(module), function)(
            spec, "digits", **spec.backend_options(contender.load_options)
        )
    backend.warmup()
    return backend


def clips(count: int, seconds: float) -> list[NDArray[np.float32]]:
    """Return spoken digits, other ones for each stream."""
    samples = round(seconds * SAMPLE_RATE)
    return [np.resize(connected_digits(12, seed=seed).audio, samples) for seed in range(count)]


class Passes:
    """The passes of a network's decoder, counted."""

    def __init__(self, network: Any) -> None:
        self.count = 0
        # `forward` of the network runs a batch of one, so this counts every pass once.
        self._forward_batch = network.forward_batch
        network.forward_batch = self._counted

    def _counted(self, rows: Any) -> Any:
        self.count += 1
        return self._forward_batch(rows)


def due_together(contender: Contender, streams: int, seconds: float) -> None:
    """Print forwards, runs and calls of streams that are due at the same time, and their words."""
    backend = load(contender)
    calls: EngineCalls = backend.engine_calls
    network = getattr(backend.engine, "network", None)
    passes = Passes(network) if hasattr(network, "forward_batch") else None
    audio = clips(streams, seconds)
    solo = [_words(_run(backend, contender, clip, None)) for clip in audio]
    first = calls.count, calls.batch_count, 0 if passes is None else passes.count
    with ThreadPoolExecutor(streams) as threads:
        turn = threading.Barrier(streams)
        drivers = list(threads.map(lambda clip: _run(backend, contender, clip, turn), audio))
    made, runs = calls.count - first[0], calls.batch_count - first[1]
    same = sum(_words(driver) == words for driver, words in zip(drivers, solo, strict=True))
    print(
        f"{contender.name}: {streams} streams that are due together each "
        f"{contender.due_seconds:g} s: {made} engine calls in {runs or made} runs "
        f"({(runs or made) / made:.2f} a call), words and times of {same} of {streams} as alone"
    )
    if passes is not None:
        steps = max(driver.processor.stats.encoder_frames for driver in drivers) / 8
        print(f"  {(passes.count - first[2]) / steps:.2f} forwards in each step of 80 ms")


def _run(
    backend: Any,
    contender: Contender,
    audio: NDArray[np.float32],
    turn: threading.Barrier | None,
) -> StreamDriver:
    driver = StreamDriver(backend.create_processor(**contender.stream_options))
    size = round(contender.due_seconds * SAMPLE_RATE)
    for first in range(0, len(audio), size):
        if turn is not None:
            turn.wait()
        driver.insert(audio[first : first + size])
        driver.drain()
    driver.finish()
    return driver


def _words(driver: StreamDriver) -> list[tuple[str, float, float]]:
    return [(token.text, token.start, token.end) for token in driver.tokens]


class TimedSession(Session):
    """A session that measures how long after its arrival each chunk is done."""

    def __init__(self, processor: Any, chunk_seconds: float) -> None:
        super().__init__(processor, max_backlog_seconds=1e9)
        self._chunk_seconds = chunk_seconds
        self._arrivals: list[float] = []  # of chunks that are not done
        self.delays: list[float] = []

    def arrive(self, chunk: NDArray[np.float32], arrival: float) -> None:
        """Receive a chunk that arrived at *arrival*."""
        self._arrivals.append(arrival)
        self.receive(chunk)

    def step(self) -> list[Event]:
        """Step, and measure the chunks that are done."""
        events = super().step()
        waiting = round(self.backlog_seconds / self._chunk_seconds) + self.has_work
        done = max(0, len(self._arrivals) - waiting)
        now = time.monotonic()
        self.delays += [now - arrival for arrival in self._arrivals[:done]]
        del self._arrivals[:done]
        return events


def real_time(contender: Contender, count: int, seconds: float) -> None:
    """Print the delay of chunks of sessions in real time: apart, and taken together."""
    drives = {"a thread each": _by_threads, "scheduler": _by_scheduler}
    for is_batching in (False, True):
        for name, drive in drives.items():
            backend = load(contender, is_batching=is_batching)
            sessions = [
                TimedSession(
                    backend.create_processor(**contender.stream_options), contender.chunk_seconds
                )
                for _ in range(count)
            ]
            began = time.process_time()
            drive(backend, sessions, contender, seconds)
            busy = (time.process_time() - began) / seconds
            delays = [delay for session in sessions for delay in session.delays]
            p50, p95 = np.percentile(delays, [50, 95])
            print(
                f"  {contender.name:14} {count:3} sessions, {contender.chunk_seconds:g} s chunks, "
                f"{'as declared' if is_batching else 'apart':11}, {name:13}: "
                f"p50 {p50 * MILLI:7.1f}  p95 {p95 * MILLI:7.1f} ms "
                f"(target {contender.target * MILLI:g}), "
                f"{busy:.2f} cores, {count / busy:.0f} sessions a core"
            )


def _schedule(count: int, contender: Contender, seconds: float) -> Iterator[tuple[float, int, int]]:
    """Return (arrival, session, number) of every chunk, the sessions spread over a chunk."""
    chunk = contender.chunk_seconds
    yield from sorted(
        ((number + 1 + session / count) * chunk, session, number)
        for number in range(round(seconds / chunk))
        for session in range(count)
    )


def _chunk(audio: NDArray[np.float32], number: int, contender: Contender) -> NDArray[np.float32]:
    size = round(contender.chunk_seconds * SAMPLE_RATE)
    return audio[number * size : (number + 1) * size]


def _by_threads(
    _backend: Any, sessions: list[TimedSession], contender: Contender, seconds: float
) -> None:
    audio, began = clips(len(sessions), seconds), time.monotonic()

    def run(index: int) -> None:
        session = sessions[index]
        for arrival, owner, number in _schedule(len(sessions), contender, seconds):
            if owner == index:
                time.sleep(max(0.0, began + arrival - time.monotonic()))
                session.arrive(_chunk(audio[index], number, contender), began + arrival)
                while session.has_work:
                    session.step()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _by_scheduler(
    backend: Any, sessions: list[TimedSession], contender: Contender, seconds: float
) -> None:
    audio = clips(len(sessions), seconds)
    with Scheduler.for_backend(
        backend, max_lateness=1e9, tick_seconds=contender.chunk_seconds
    ) as scheduler:
        attachments = [scheduler.attach(session, _drop, call=_directly) for session in sessions]
        began = time.monotonic()
        for arrival, index, number in _schedule(len(sessions), contender, seconds):
            time.sleep(max(0.0, began + arrival - time.monotonic()))
            sessions[index].arrive(_chunk(audio[index], number, contender), began + arrival)
            attachments[index].notify()
        last = time.monotonic() + DRAIN_SECONDS
        while any(session.has_work for session in sessions) and time.monotonic() < last:
            time.sleep(0.05)


def _drop(_events: list[Event]) -> None:
    """Stand for a consumer that costs nothing."""


def _directly(function: Callable[[], object]) -> None:
    function()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="*", default=[c.name for c in CONTENDERS])
    parser.add_argument("--streams", type=int, default=8, help="that are due together")
    parser.add_argument("--sessions", type=int, nargs="*", default=[24])
    parser.add_argument("--seconds", type=float, default=20.0, help="of audio in each measurement")
    arguments = parser.parse_args()
    for contender in CONTENDERS:
        if contender.name not in arguments.backends:
            continue
        try:
            due_together(contender, arguments.streams, arguments.seconds)
            for count in arguments.sessions:
                real_time(contender, count, arguments.seconds)
        except BackendUnavailable as error:
            print(f"{contender.name}: {error}")


if __name__ == "__main__":
    main()
