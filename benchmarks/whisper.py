"""What a stream of Whisper costs: counters per audio second over half an hour, and latency."""

from __future__ import annotations

import argparse
import time

import numpy as np

from wlk_core import load_backend
from wlk_core.testing import StreamDriver, connected_digits

COUNTERS = ("encoder_frames", "decoder_positions", "decoder_forwards", "detokenised_ids")


def minute_of_digits() -> np.ndarray:
    """Return a minute of connected digits in several voices, with pauses of up to a second."""
    parts: list[np.ndarray] = []
    seed = 0
    while sum(map(len, parts)) < 60 * 16_000:
        parts.append(connected_digits(6, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8).audio)
        seed += 1
    return np.concatenate(parts)[: 60 * 16_000]


def main() -> None:
    """Stream the same minute over and over and print how work and state develop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--backend", default="faster-whisper")
    parser.add_argument("--context", default=None, choices=("full", "fitted"))
    arguments = parser.parse_args()
    audio = minute_of_digits()
    options = {"audio_context": arguments.context} if arguments.context else {}
    with load_backend(arguments.backend, "digits") as backend:
        backend.warmup()
        driver = StreamDriver(backend.create_processor(language="en", **options))
        totals, held, latencies = [], [], []
        began = time.perf_counter()
        for _ in range(arguments.minutes):
            seen = len(driver.records)
            driver.feed(audio)
            driver.silence(1.0)
            for record in driver.records[seen:]:
                latencies += [record.audio_time - t.end for t in record.emission.committed]
            del driver.records[seen:]
            stats = driver.processor.stats
            totals.append([getattr(stats, name) for name in COUNTERS])
            held.append(stats.state_bytes)
        wall = time.perf_counter() - began
    per_second = np.diff(np.array(totals, dtype=float), axis=0, prepend=0) / 60
    first, last = 1, len(per_second) - 2
    print(f"{arguments.backend} digits, {arguments.minutes} minutes, chunks of 1 s")
    for index, name in enumerate(COUNTERS):
        early, late = per_second[first, index], per_second[last, index]
        print(
            f"  {name} per audio second: minute {first + 1} {early:.1f}, minute {last + 1} "
            f"{late:.1f} ({100 * (late / early - 1):+.2f} %; target within 2 %)"
        )
    print(f"  state bytes after a pause: minute {first + 1} {held[first]}, {last + 1} {held[last]}")
    median, p90 = np.percentile(latencies, [50, 90])
    print(f"  emission latency, computing left out: median {median:.2f} s, p90 {p90:.2f} s")
    print(f"  real-time factor {wall / (60 * arguments.minutes):.3f}")


if __name__ == "__main__":
    main()
