"""Measure the cost of wlk-core itself: start-up, a chunk of audio, an hour of stream."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from wlk_bench.events import AudioIn
from wlk_bench.metrics.statistics import slope
from wlk_bench.metrics.work import HOUR
from wlk_bench.recorder import Pause, record_stream
from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode
from wlk_core.processor import SAMPLE_RATE

CHUNK = 1600  # samples: 100 ms
ROUND = 61.0  # seconds: a minute of speech and the pause that follows
WARM_UP = 2 * ROUND  # left out, because caches and pools fill up first


def seconds(arguments: list[str]) -> float:
    """Return the seconds that a command takes."""
    began = time.perf_counter()
    subprocess.run(arguments, check=True, capture_output=True)  # noqa: S603 -- our own command
    return time.perf_counter() - began


def start_up(repeats: int = 15) -> None:
    """Print the cost of `wlk-core --help` against a bare interpreter."""
    # The commands take turns, so that other load affects both; the fastest run of each counts.
    bare_seconds, help_seconds = [], []
    for _ in range(repeats):
        bare_seconds.append(seconds([sys.executable, "-c", "pass"]))
        help_seconds.append(seconds([sys.executable, "-m", "wlk_core", "--help"]))
    bare, with_help = min(bare_seconds), min(help_seconds)
    print(
        f"--help against a bare interpreter: {with_help / bare:.1f}x "
        f"({with_help * 1000:.0f} ms against {bare * 1000:.0f} ms; target <= 5x)"
    )


def minute() -> np.ndarray:
    """Return a minute of coded speech: 120 words with a pause after each."""
    return encode([CodedToken(1 + i % 10, 6 * i, 4) for i in range(125)], cells=750)


def chunk_cost(minutes: int) -> None:
    """
    Print the cost of a 100 ms chunk beyond the engine's own time.

    The calls are made directly, because the work of a recorder between them would leave the caches
    cold, and calls that take microseconds would then take a third longer.
    """
    audio = minute()
    stream = ScriptedBackend().create_processor()
    costs = []
    for _ in range(minutes):
        for first in range(0, len(audio), CHUNK):
            chunk = audio[first : first + CHUNK]
            engine = stream.stats.busy_seconds
            began = time.perf_counter()
            stream.insert_audio_chunk(chunk)
            stream.process_iter()
            stream.get_buffer()
            whole = time.perf_counter() - began
            costs.append(whole - (stream.stats.busy_seconds - engine))
    p50, p99 = np.percentile(costs, [50, 99]) * 1e6
    print(
        f"core per 100 ms chunk: p50 {p50:.0f} us, p99 {p99:.0f} us over {len(costs)} chunks "
        "(targets <= 50 and <= 200)"
    )


def hour() -> None:
    """Print the growth of memory over an hour of stream."""
    rounds = 60 * [minute(), Pause(1.0)]
    stream = ScriptedBackend().create_processor()
    # Only one point per minute is stored, because storing the whole log would itself take memory.
    hours: list[float] = []
    megabytes: list[float] = []
    for event in record_stream(stream, rounds, chunk_seconds=CHUNK / SAMPLE_RATE):
        if isinstance(event, AudioIn) and event.audio_time >= WARM_UP + len(hours) * ROUND:
            hours.append(event.audio_time / HOUR)
            megabytes.append((event.resident_bytes or peak_bytes()) / 1e6)
    growth = slope(list(zip(hours, megabytes, strict=True)))
    print(f"resident memory over an hour of stream: {growth:+.2f} MB an hour (target <= 1)")


def peak_bytes() -> float:
    """Return the peak memory of this process, for systems that do not report the current one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=10, help="stream for the cost of a chunk")
    start_up()
    chunk_cost(parser.parse_args().minutes)
    hour()


if __name__ == "__main__":
    main()
