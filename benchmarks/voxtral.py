"""
Count the decoder passes of a Voxtral stream, live and from a file.

python benchmarks/voxtral.py --backend voxtral-mlx
python benchmarks/voxtral.py --backend voxtral-mlx --engine voxmlx
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from wlk_core import ASRToken, Backend, StreamStats

STEP_SECONDS = 0.08
TARGET_PASSES = 6.0  # per second in file mode, against 12.5 step by step


def speech(minutes: float) -> np.ndarray:
    """Return connected digits in several voices, without silences that would end an utterance."""
    parts: list[np.ndarray] = []
    seed = 0
    while sum(map(len, parts)) < 60 * minutes * SAMPLE_RATE:
        parts.append(connected_digits(6, seed=seed, gap=(0.05, 0.8), lead=0.2, tail=0.4).audio)
        seed += 1
    return np.concatenate(parts)[: round(60 * minutes * SAMPLE_RATE)]


def transcribed(
    backend: Backend, audio: np.ndarray, chunk_seconds: float
) -> tuple[tuple[ASRToken, ...], StreamStats]:
    """Return the words of a stream and its counters."""
    driver = StreamDriver(backend.create_processor())
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.drain()
    driver.finish()
    return driver.tokens, driver.processor.stats


def print_passes(backend: Backend, minutes: float) -> None:
    """Compare live audio with a file: decoder passes per second, and the words."""
    audio = speech(minutes)
    seconds = len(audio) / SAMPLE_RATE
    live, live_stats = transcribed(backend, audio, STEP_SECONDS)
    file, file_stats = transcribed(backend, audio, 60.0)
    for name, stats in (
        ("live, chunks of 80 ms", live_stats),
        ("file, chunks of 60 s", file_stats),
    ):
        passes = (stats.decoder_forwards or 0) / seconds
        positions = (stats.decoder_positions or 0) / seconds
        busy = stats.busy_seconds / seconds
        print(
            f"  {name}: {passes:.2f} passes over {positions:.2f} positions and {busy:.4f} busy "
            "seconds per audio second"
        )
    print(f"  target in file mode: at most {TARGET_PASSES:g} passes")
    # Probabilities are not compared, because wider passes round differently.
    same = [(token.text, token.start, token.end) for token in live] == [
        (token.text, token.start, token.end) for token in file
    ]
    print(f"  the same words and times: {same} ({len(file)} words)")


def main() -> None:
    """Print the requested figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="voxtral-mlx")
    parser.add_argument("--engine", help="engine of voxtral-mlx: native or voxmlx")
    parser.add_argument("--minutes", type=float, default=2.0, help="length of the audio")
    arguments = parser.parse_args()
    options = {"engine": arguments.engine} if arguments.engine else {}
    print(" ".join([arguments.backend, "digits", *options.values()]))
    with load_backend(arguments.backend, "digits", **options) as backend:
        backend.warmup()
        print_passes(backend, arguments.minutes)


if __name__ == "__main__":
    main()
