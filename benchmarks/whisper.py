"""The cost of a stream of Whisper, policy by policy, on the same audio and chunk schedule."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import attrs
from digit_streams.growth import print_growth
from digit_streams.material import stream_of
from digit_streams.row import CHUNK_SECONDS, Row, measure, print_heading, print_row

from wlk_core import load_backend
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from digit_streams.material import Material

LEAST_RATIO = 4.0  # between the loop and AlignAtt, in frames and in positions


@attrs.frozen
class Contender:
    """A backend with options of its stream, under the name of its row."""

    name: str
    backend: str
    options: dict[str, Any]


ALIGNATT = Contender("whisper alignatt", "whisper", {"policy": "alignatt"})
# The loop of published implementations: each second all audio since the last trim again, in the
# 30 s window on which Whisper was trained, trimmed from 15 s on (buffer_trimming_sec of
# whisper_streaming).  Engine and policy are ours, so that only the work differs.
LOOP_OPTIONS = {"policy": "local-agreement", "audio_context": "full", "buffer_seconds": 15.0}
LOOP = Contender("re-decoding loop", "whisper", LOOP_OPTIONS)
CONTENDERS = (
    ALIGNATT,
    Contender("whisper local-agreement", "whisper", {"policy": "local-agreement"}),
    Contender("faster-whisper local-agreement", "faster-whisper", {"policy": "local-agreement"}),
    LOOP,
    # The same in windows of 30 s, which models need that were not trained on shorter ones.
    Contender(
        "whisper alignatt, full context",
        "whisper",
        {"policy": "alignatt", "audio_context": "full"},
    ),
    Contender(
        "whisper local-agreement, full context",
        "whisper",
        {"policy": "local-agreement", "audio_context": "full"},
    ),
    # The loop with the beam that whisper_streaming gives its engines.
    Contender("re-decoding loop, beam 5", "whisper", {**LOOP_OPTIONS, "beam_size": 5}),
    Contender("mlx-whisper alignatt", "mlx-whisper", {"policy": "alignatt"}),
)


def compared(contenders: Sequence[Contender], material: Material) -> Iterator[Row]:
    """Yield a row for each contender whose backend is installed."""
    absent: set[str] = set()
    for contender in contenders:
        if contender.backend in absent:
            continue
        try:
            backend = load_backend(contender.backend, "digits")
        except BackendUnavailable as error:
            absent.add(contender.backend)
            print(f"left out: {error}")
            continue
        with backend:
            backend.warmup()
            stream = backend.create_processor(language="en", **contender.options)
            yield measure(contender.name, stream, material)
            stream.close()


def print_target(rows: Sequence[Row]) -> None:
    """Print the work of AlignAtt against that of the loop, if both were measured."""
    by_name = {row.name: row for row in rows}
    alignatt, loop = by_name.get(ALIGNATT.name), by_name.get(LOOP.name)
    if alignatt is None or loop is None:
        return
    print(
        f"{alignatt.name} against the {loop.name}: "
        f"{loop.encoder_frames / alignatt.encoder_frames:.1f}x fewer frames, "
        f"{loop.decoder_positions / alignatt.decoder_positions:.1f}x fewer positions (target "
        f"{LEAST_RATIO:g}x each), {loop.decoder_forwards / alignatt.decoder_forwards:.1f}x fewer "
        f"forwards, words {loop.latency_median - alignatt.latency_median:.2f} s sooner"
    )


def compare(minutes: float) -> None:
    """Print the table."""
    material = stream_of(60.0 * minutes)
    words = len(material.reference.words)
    print(f"digits, {minutes:g} minutes with {words} words, chunks of {CHUNK_SECONDS:g} s")
    width = max(len(contender.name) for contender in CONTENDERS)
    print_heading(width)
    rows: list[Row] = []
    for row in compared(CONTENDERS, material):
        rows.append(row)
        print_row(row, first=rows[0], width=width)
    print_target(rows)


def grow(backend: str, options: dict[str, Any], minutes: int) -> None:
    """Print the growth of work and state over a stream of a backend."""
    with load_backend(backend, "digits") as loaded:
        loaded.warmup()
        stream = loaded.create_processor(language="en", **options)
        chosen = "".join(f", {name}={value}" for name, value in options.items())
        print(f"{backend} digits{chosen}, {minutes} minutes, chunks of 1 s", flush=True)
        print_growth(stream, minutes)


def main() -> None:
    """Compare, or measure growth."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # engines then spend the time of one core each
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of audio; 10 by default")
    parser.add_argument("--growth", action="store_true", help="one backend, minute by minute")
    parser.add_argument("--backend", default="faster-whisper", help="(--growth)")
    parser.add_argument("--policy", help="(--growth)")
    parser.add_argument("--context", choices=("full", "fitted"), help="(--growth)")
    arguments = parser.parse_args()
    if not arguments.growth:
        compare(arguments.minutes)
        return
    settings = {"policy": arguments.policy, "audio_context": arguments.context}
    options = {name: value for name, value in settings.items() if value}
    grow(arguments.backend, options, round(arguments.minutes))


if __name__ == "__main__":
    main()
