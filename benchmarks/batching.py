"""
What sharing an engine saves: forwards and runs for streams that are due together, and delays.

Each backend is measured in one run as it was, each call for itself, and as it is declared.
Sessions in real time share the machine with whatever else runs on it.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.capacity.timed_session import TimedSession
from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import BackendUnavailable, load_backend
from wlk_core.processor import SAMPLE_RATE
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from wlk_core import Event
    from wlk_core.plugins import EngineCalls

STEP_SECONDS = 0.08  # a step of Voxtral
ROUNDING = 1e-4  # of a probability
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

    @property
    def title(self) -> str:
        """The name, with the policy where it is an option."""
        return " ".join((self.name, self.stream_options.get("policy", ""))).strip()


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
        name="whisper",
        load_options={},
        stream_options={"tick_seconds": 0.5, "policy": "alignatt"},
        calls_apart=None,
        due_seconds=0.5,
        chunk_seconds=0.5,
        target=0.5,
    ),
    Contender(
        name="whisper",
        load_options={},
        stream_options={"tick_seconds": 0.5, "policy": "local-agreement"},
        calls_apart=None,
        due_seconds=0.5,
        chunk_seconds=0.5,
        target=0.5,
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
    """The passes of a network, counted: one for each stream, or for several of them."""

    def __init__(self, network: Any) -> None:
        self.encoder = self.decoder = 0
        if hasattr(network, "forward_batch"):  # Voxtral: of one stream, too
            self._count(network, "encode_batch", "encoder")
            self._count(network, "forward_batch", "decoder")
        elif hasattr(network, "new_batch"):  # Whisper
            self._count(network, "encode", "encoder")
            self._count_made(network, "new_decoder", {"forward": "decoder"})
            self._count_made(network, "new_batch", {"encode": "encoder", "forward": "decoder"})

    @property
    def count(self) -> tuple[int, int]:
        """The passes of encoder and decoder so far."""
        return self.encoder, self.decoder

    def _count(self, owner: Any, method: str, counter: str) -> None:
        run = getattr(owner, method)

        def counted(*arguments: Any, **options: Any) -> Any:
            setattr(self, counter, getattr(self, counter) + 1)
            return run(*arguments, **options)

        setattr(owner, method, counted)

    def _count_made(self, network: Any, method: str, counters: dict[str, str]) -> None:
        make = getattr(network, method)

        def made(*arguments: Any) -> Any:
            owner = make(*arguments)
            if not hasattr(owner, "encoder_output"):  # a decoder of a batch, which counts itself
                for name, counter in counters.items():
                    self._count(owner, name, counter)
            return owner

        setattr(network, method, made)


def due_together(contender: Contender, streams: int, seconds: float) -> None:
    """Print passes, runs and calls of streams that are due at the same time, and their words."""
    backend = load(contender)
    calls: EngineCalls = backend.engine_calls
    passes = Passes(getattr(backend.engine, "network", None))
    audio = clips(streams, seconds)
    began, first = time.process_time(), passes.count
    solo = [_run(backend, contender, clip, None) for clip in audio]
    solo_seconds, alone = time.process_time() - began, _since(first, passes)
    count, run_count = calls.count, calls.batch_count
    began, first = time.process_time(), passes.count
    with ThreadPoolExecutor(streams) as threads:
        turn = threading.Barrier(streams)
        drivers = list(threads.map(lambda clip: _run(backend, contender, clip, turn), audio))
    batch_seconds, together = time.process_time() - began, _since(first, passes)
    made, runs = calls.count - count, calls.batch_count - run_count
    same = sum(_has_words_of(driver, other) for driver, other in zip(drivers, solo, strict=True))
    print(
        f"{contender.title}: {streams} streams that are due together each "
        f"{contender.due_seconds:g} s: {made} engine calls in {runs or made} runs "
        f"({(runs or made) / made:.2f} a call), words, times and probabilities of {same} of "
        f"{streams} as alone"
    )
    print(
        f"  {solo_seconds:.1f} s of processor time alone, {batch_seconds:.1f} s together: "
        f"{streams * seconds / solo_seconds:.0f} and {streams * seconds / batch_seconds:.0f} "
        f"sessions a core"
    )
    if sum(alone):
        print(
            f"  encoder: {alone[0]} passes alone, {together[0]} together; decoder: {alone[1]} and "
            f"{together[1]}; {sum(together) / sum(alone):.2f} of all"
        )
    if contender.due_seconds == STEP_SECONDS:
        steps = max(driver.processor.stats.encoder_frames for driver in drivers) / 8
        print(f"  {together[1] / steps:.2f} forwards in each step of 80 ms")


def _since(first: tuple[int, int], passes: Passes) -> tuple[int, int]:
    return passes.encoder - first[0], passes.decoder - first[1]


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


def _has_words_of(driver: StreamDriver, other: StreamDriver) -> bool:
    """Return whether text and times are equal, and probabilities up to rounding."""
    return len(driver.tokens) == len(other.tokens) and all(
        (token.text, token.start, token.end) == (same.text, same.start, same.end)
        and (token.probability is None or abs(token.probability - same.probability) < ROUNDING)
        for token, same in zip(driver.tokens, other.tokens, strict=True)
    )


def _record(delays: list[float], arrivals: list[float], _seconds: float) -> None:
    """Append to *delays* how long ago chunks that are done arrived."""
    now = time.monotonic()
    delays += [now - arrival for arrival in arrivals]


def real_time(contender: Contender, count: int, seconds: float) -> None:
    """Print the delay of chunks of sessions in real time: apart, and taken together."""
    drives = {"a thread each": _by_threads, "scheduler": _by_scheduler}
    for is_batching in (False, True):
        for name, drive in drives.items():
            backend = load(contender, is_batching=is_batching)
            delays: list[float] = []
            sessions = [
                TimedSession(
                    backend.create_processor(**contender.stream_options),
                    contender.chunk_seconds,
                    partial(_record, delays),
                )
                for _ in range(count)
            ]
            began = time.process_time()
            drive(backend, sessions, contender, seconds)
            busy = (time.process_time() - began) / seconds
            p50, p95 = np.percentile(delays, [50, 95])
            print(
                f"  {contender.title:14} {count:3} sessions, {contender.chunk_seconds:g} s chunks, "
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
    with Scheduler.for_backend(backend, tick_seconds=contender.chunk_seconds) as scheduler:
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
    parser.add_argument("--backends", nargs="*", default=sorted({c.name for c in CONTENDERS}))
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
            print(f"{contender.title}: {error}")


if __name__ == "__main__":
    main()
