"""Compare the cost of Whisper's policies on the same audio and chunk schedule."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import attrs
from streams import CHUNK_SECONDS, Row, measure, print_heading, print_row, stream_of

from wlk_core import load_backend
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streams import Material

LEAST_RATIO = 4.0  # target: the loop's work divided by AlignAtt's, in frames and in positions


@attrs.frozen
class Contender:
    """A backend, the options of its stream, and the name of its row."""

    name: str
    backend: str
    options: dict[str, Any]


ALIGNATT = Contender("whisper alignatt", "whisper", {"policy": "alignatt"})
# The loop of published implementations: every second it decodes all audio since the last trim, in
# the 30 s window that Whisper was trained on, and trims from 15 s on (buffer_trimming_sec of
# whisper_streaming).  Engine and policy are ours, so that only the work differs.
LOOP_OPTIONS = {"policy": "local-agreement", "audio_context": "full", "buffer_seconds": 15.0}
LOOP = Contender("re-decoding loop", "whisper", LOOP_OPTIONS)
CONTENDERS = (
    ALIGNATT,
    Contender("whisper local-agreement", "whisper", {"policy": "local-agreement"}),
    Contender("faster-whisper local-agreement", "faster-whisper", {"policy": "local-agreement"}),
    LOOP,
    # The same in windows of 30 s, for models that were not trained on shorter ones.
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
    frames, positions, forwards = (
        loop.per_second(counter) / alignatt.per_second(counter)
        for counter in ("encoder_frames", "decoder_positions", "decoder_forwards")
    )
    print(
        f"{alignatt.name} against the {loop.name}: {frames:.1f}x fewer frames, {positions:.1f}x "
        f"fewer positions (target {LEAST_RATIO:g}x each), {forwards:.1f}x fewer forwards, words "
        f"{loop.latency.p50 - alignatt.latency.p50:.2f} s sooner"
    )


def main() -> None:
    """Print the table."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each engine then uses one core
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="length; 10 by default")
    minutes = parser.parse_args().minutes
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


if __name__ == "__main__":
    main()
