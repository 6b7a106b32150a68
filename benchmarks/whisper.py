"""What a stream of Whisper costs: counters per audio second over half an hour, and latency."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from wlk_bench.events import Call, Commit, End
from wlk_bench.recorder import Pause, record_stream
from wlk_core import load_backend
from wlk_core.testing import connected_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTERS = ("encoder_frames", "decoder_positions", "decoder_forwards", "detokenised_ids")
MINUTE = 61.0  # seconds of one round: a minute of speech and a pause


def speech() -> np.ndarray:
    """Return a minute of connected digits in several voices, with pauses of up to a second."""
    parts: list[np.ndarray] = []
    seed = 0
    while sum(map(len, parts)) < 60 * 16_000:
        parts.append(connected_digits(6, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8).audio)
        seed += 1
    return np.concatenate(parts)[: 60 * 16_000]


def rounds(minutes: int) -> Iterator[np.ndarray | Pause]:
    """Yield the same minute over and over, a pause of a second behind each."""
    audio = speech()
    for _ in range(minutes):
        yield audio
        yield Pause(1.0)


def main() -> None:
    """Print how work and state develop over the stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--backend", default="faster-whisper")
    parser.add_argument("--context", choices=("full", "fitted"))
    arguments = parser.parse_args()
    options = {"audio_context": arguments.context} if arguments.context else {}
    work = np.zeros((arguments.minutes + 1, len(COUNTERS)))
    held = np.zeros(arguments.minutes + 1)
    latencies: list[float] = []
    with load_backend(arguments.backend, "digits") as backend:
        backend.warmup()
        stream = backend.create_processor(language="en", **options)
        for event in record_stream(stream, rounds(arguments.minutes)):
            # What is done in the pause behind a minute still belongs to it.
            minute = int((event.audio_time - 1e-3) // MINUTE)
            if isinstance(event, Call):
                work[minute] += [getattr(event.work, name) or 0 for name in COUNTERS]
                held[minute] = max(held[minute], event.state_bytes or 0)
            elif isinstance(event, Commit):
                latencies += [event.audio_time - token.end for token in event.tokens]
            elif isinstance(event, End):
                busy = event.engine_seconds / event.audio_time
    early, late = 1, max(1, arguments.minutes - 2)
    print(f"{arguments.backend} digits, {arguments.minutes} minutes, chunks of 1 s")
    for name, before, after in zip(COUNTERS, work[early] / 60, work[late] / 60, strict=True):
        print(
            f"  {name} per audio second: minute {early + 1} {before:.1f}, minute {late + 1} "
            f"{after:.1f} ({100 * (after / before - 1):+.2f} %; target within 2 %)"
        )
    print(f"  most bytes held: minute {early + 1} {held[early]:.0f}, {late + 1} {held[late]:.0f}")
    median, p90 = np.percentile(latencies, [50, 90])
    print(f"  emission latency, computing left out: median {median:.2f} s, p90 {p90:.2f} s")
    print(f"  engine seconds per audio second {busy:.3f}")


if __name__ == "__main__":
    main()
