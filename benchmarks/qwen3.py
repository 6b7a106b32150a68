"""Measure the cost of a Qwen3-ASR stream against the same loop without a decoder cache."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import attrs
from streams import CHUNK_SECONDS, Row, measure, print_heading, print_row, stream_of

from wlk_core import load_backend
from wlk_core.plugins import AlignAtt, AlignAttRecognizer, BackendUnavailable, OnlineStream
from wlk_qwen3_simul.engine.decoder import CachedDecoder
from wlk_qwen3_simul.engine.engine import DecodingOptions
from wlk_qwen3_simul.engine.frames import FRAME_SAMPLES, HOP_SAMPLES

if TYPE_CHECKING:
    from wlk_core.plugins import AlignedHypothesis, OnlineProcessor
    from wlk_qwen3_simul.engine.engine import Engine

MAX_FRAMES = {1.0: 5.0, 2.0: 2.8}  # mel frames encoded for each new one, by seconds of a tick
MAX_POSITIONS = 140  # decoder positions per tick
MAX_FORWARDS = 5  # per tick
BORDER, REWIND = 12, 100  # frames of 40 ms, the defaults of the backends
CACHED = "decoder cache"
UNCACHED = "no cache"


@attrs.frozen
class UncachedDecoder:
    """An AlignAttDecoder without a cache: every call encodes and prefills the whole buffer."""

    engine: Engine
    options: DecodingOptions

    def __call__(self, audio: Any, *, first_sample: int, **arguments: Any) -> AlignedHypothesis:
        """Decode with a new decoder; see AlignAttDecoder."""
        del first_sample  # to a new decoder every buffer begins at 0
        return CachedDecoder(self.engine, self.options)(audio, first_sample=0, **arguments)


def open_uncached(engine: Engine, tick: float) -> OnlineProcessor:
    """Return a stream like the backend's own, but without a decoder cache."""
    options = DecodingOptions(rewind_frames=REWIND)
    return OnlineStream(
        lambda: AlignAttRecognizer(
            UncachedDecoder(engine, options),
            policy=AlignAtt(border_frames=BORDER, rewind_frames=REWIND),
            frame_samples=FRAME_SAMPLES,
            language="en",
            tick_seconds=tick,
            buffer_seconds=engine.checkpoint.buffer_seconds,
            cut_samples=engine.network.window_frames * HOP_SAMPLES,
        )
    )


def print_targets(cached: Row, uncached: Row, tick: float) -> None:
    """Print the cost of a tick, its targets, and the cost without a decoder cache."""
    frames, positions, forwards, syncs = (
        cached.per_second(counter) * tick
        for counter in ("encoder_frames", "decoder_positions", "decoder_forwards", "host_syncs")
    )
    words = cached.score.words.hypothesis_length
    print(
        f"a tick of {tick:g} s: {frames / tick / 100:.2f} frames for each new one (target "
        f"{MAX_FRAMES.get(tick, 5.0):g}), {positions:.0f} positions (target {MAX_POSITIONS}), "
        f"{forwards:.2f} forwards (target {MAX_FORWARDS})"
    )
    print(
        f"{syncs:.2f} host syncs a tick (target {MAX_FORWARDS}), "
        f"{syncs / tick * cached.score.audio_seconds / words:.2f} for each word committed"
    )
    ratios = [
        f"{uncached.per_second(counter) / cached.per_second(counter):.1f}x the {name}"
        for name, counter in (
            ("frames", "encoder_frames"),
            ("positions", "decoder_positions"),
            ("forwards", "decoder_forwards"),
        )
    ]
    busy = uncached.score.busy_seconds / cached.score.busy_seconds
    print(f"{UNCACHED}: {', '.join(ratios)}, {busy:.1f}x the processor time")


def compare(minutes: float, tick: float, name: str) -> None:
    """Print the rows of both loops, and of LocalAgreement, on one stream."""
    material = stream_of(60.0 * minutes)
    print(
        f"{name}, {minutes:g} minutes with {len(material.reference.words)} words, chunks of "
        f"{CHUNK_SECONDS:g} s, ticks of {tick:g} s"
    )
    with load_backend(name, "digits") as backend:
        backend.warmup()
        options = {"language": "en", "tick_seconds": tick}
        streams = {
            CACHED: backend.create_processor(policy="alignatt", **options),
            UNCACHED: open_uncached(backend.engine, tick),  # type: ignore[attr-defined]  # LoadedBackend has one
            "local-agreement": backend.create_processor(policy="local-agreement", **options),
        }
        width = max(map(len, streams))
        print_heading(width)
        rows: dict[str, Row] = {}
        for label, stream in streams.items():
            rows[label] = measure(label, stream, material)
            print_row(rows[label], first=rows[CACHED], width=width)
            stream.close()
    print_targets(rows[CACHED], rows[UNCACHED], tick)


def main() -> None:
    """Compare the loops on each backend."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each framework then uses one core
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="length; 10 by default")
    parser.add_argument("--tick", type=float, default=1.0, help="seconds; 1 by default")
    parser.add_argument("--backend", action="append", help="may be repeated; both by default")
    arguments = parser.parse_args()
    for name in arguments.backend or ["qwen3-simul", "qwen3-mlx-simul"]:
        try:
            compare(arguments.minutes, arguments.tick, name)
        except BackendUnavailable as error:
            print(f"left out: {error}")


if __name__ == "__main__":
    main()
