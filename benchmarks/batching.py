"""
Measure what batching saves: network passes and engine runs of streams that are due together.

`wlk-bench capacity` measures how many sessions a machine sustains in real time.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import BackendUnavailable, load_backend
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_core.plugins import EngineCalls

STEP_SECONDS = 0.08  # a step of Voxtral
ROUNDING = 1e-4  # tolerance for probabilities


@attrs.frozen(kw_only=True)
class Contender:
    """A backend with its digits model."""

    name: str
    load_options: dict[str, Any]
    stream_options: dict[str, Any]
    due_seconds: float  #: seconds of audio after which a stream is due

    @property
    def title(self) -> str:
        """The name, followed by the policy if one is set."""
        return " ".join((self.name, self.stream_options.get("policy", ""))).strip()


CONTENDERS = (
    Contender(name="voxtral-hf", load_options={}, stream_options={}, due_seconds=STEP_SECONDS),
    Contender(
        name="faster-whisper",
        load_options={"cpu_threads": 1},
        stream_options={"tick_seconds": 0.5},
        due_seconds=0.5,
    ),
)


def load(contender: Contender) -> Any:
    """Return the backend, loaded and warmed up."""
    backend = load_backend(contender.name, "digits", **contender.load_options)
    backend.warmup()
    return backend


def clips(count: int, seconds: float) -> list[NDArray[np.float32]]:
    """Return spoken digits, different ones for each stream."""
    samples = round(seconds * SAMPLE_RATE)
    return [np.resize(connected_digits(12, seed=seed).audio, samples) for seed in range(count)]


class Passes:
    """Count the passes of a network, each of which serves one stream or several."""

    def __init__(self, network: Any) -> None:
        self.encoder = self.decoder = 0
        if hasattr(network, "forward_batch"):  # Voxtral, which uses it for one stream too
            self._count(network, "encode_batch", "encoder")
            self._count(network, "forward_batch", "decoder")

    def _count(self, owner: Any, method: str, counter: str) -> None:
        run = getattr(owner, method)

        def counted(*arguments: Any, **options: Any) -> Any:
            setattr(self, counter, getattr(self, counter) + 1)
            return run(*arguments, **options)

        setattr(owner, method, counted)


@attrs.frozen(kw_only=True)
class Measurement:
    """Streams that have ended, and what they took."""

    drivers: list[StreamDriver]
    cpu_seconds: float
    encoder_passes: int
    decoder_passes: int
    engine_calls: int
    engine_runs: int

    @property
    def passes(self) -> int:
        """The passes of encoder and decoder together."""
        return self.encoder_passes + self.decoder_passes


def due_together(contender: Contender, streams: int, seconds: float) -> None:
    """Compare streams that are due together with the same streams alone: work and words."""
    backend = load(contender)
    passes = Passes(getattr(backend.engine, "network", None))
    audio = clips(streams, seconds)

    def run_alone() -> list[StreamDriver]:
        return [_run(backend, contender, clip, None) for clip in audio]

    def run_together() -> list[StreamDriver]:
        turn = threading.Barrier(streams)
        with ThreadPoolExecutor(streams) as threads:
            return list(threads.map(lambda clip: _run(backend, contender, clip, turn), audio))

    alone = measure(run_alone, backend.engine_calls, passes)
    together = measure(run_together, backend.engine_calls, passes)
    pairs = zip(together.drivers, alone.drivers, strict=True)
    same = len([driver for driver, other in pairs if _has_words_of(driver, other)])
    runs = (
        together.engine_runs or together.engine_calls
    )  # a backend that does not batch counts none
    print(
        f"{contender.title}: {streams} streams that are due together every "
        f"{contender.due_seconds:g} s: {together.engine_calls} engine calls in {runs} runs "
        f"({runs / together.engine_calls:.2f} per call); {same} of {streams} streams have "
        "the same words, times and probabilities as alone"
    )
    print(
        f"  {alone.cpu_seconds:.1f} s of processor time alone, {together.cpu_seconds:.1f} s "
        f"together: {streams * seconds / alone.cpu_seconds:.0f} and "
        f"{streams * seconds / together.cpu_seconds:.0f} sessions per core"
    )
    if alone.passes:
        print(
            f"  encoder: {alone.encoder_passes} passes alone, {together.encoder_passes} together; "
            f"decoder: {alone.decoder_passes} and {together.decoder_passes}; "
            f"{together.passes / alone.passes:.2f} of all"
        )
    if contender.due_seconds == STEP_SECONDS:
        steps = max(driver.processor.stats.encoder_frames for driver in together.drivers) / 8
        print(f"  {together.decoder_passes / steps:.2f} forwards per step of 80 ms")


def measure(
    run: Callable[[], list[StreamDriver]], calls: EngineCalls, passes: Passes
) -> Measurement:
    """Run the streams, and return what they took."""
    encoder, decoder = passes.encoder, passes.decoder
    engine_calls, engine_runs = calls.count, calls.batch_count
    began = time.process_time()
    drivers = run()
    return Measurement(
        drivers=drivers,
        cpu_seconds=time.process_time() - began,
        encoder_passes=passes.encoder - encoder,
        decoder_passes=passes.decoder - decoder,
        engine_calls=calls.count - engine_calls,
        engine_runs=calls.batch_count - engine_runs,
    )


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
    """Return whether text and times are equal, and probabilities within ROUNDING."""
    return len(driver.tokens) == len(other.tokens) and all(
        (token.text, token.start, token.end) == (same.text, same.start, same.end)
        and (token.probability is None or abs(token.probability - same.probability) < ROUNDING)
        for token, same in zip(driver.tokens, other.tokens, strict=True)
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="*", default=sorted({c.name for c in CONTENDERS}))
    parser.add_argument("--streams", type=int, default=8, help="streams that are due together")
    parser.add_argument("--seconds", type=float, default=20.0, help="audio in each measurement")
    arguments = parser.parse_args()
    for contender in CONTENDERS:
        if contender.name not in arguments.backends:
            continue
        try:
            due_together(contender, arguments.streams, arguments.seconds)
        except BackendUnavailable as error:
            print(f"{contender.title}: {error}")


if __name__ == "__main__":
    main()
