"""The cost of a stream of Qwen3-ASR, against the same loop without a decoder cache."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import attrs
from digit_streams.growth import print_growth
from digit_streams.material import stream_of
from digit_streams.row import CHUNK_SECONDS, Row, measure, print_heading, print_row

from wlk_core import load_backend
from wlk_core.plugins import AlignAtt, AlignAttRecognizer, BackendUnavailable, OnlineStream
from wlk_qwen3_simul.engine.decoder import CachedDecoder
from wlk_qwen3_simul.engine.engine import DecodingOptions
from wlk_qwen3_simul.engine.frames import FRAME_SAMPLES, HOP_SAMPLES

if TYPE_CHECKING:
    from wlk_core.plugins import AlignedHypothesis, OnlineProcessor
    from wlk_qwen3_simul.engine.engine import Engine

MAX_FRAMES = {1.0: 5.0, 2.0: 2.8}  # mel frames encoded for each new one, by tick
MAX_POSITIONS = 140  # of the decoder, a tick
MAX_FORWARDS = 5  # a tick
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
        del first_sample  # a new decoder has no earlier audio, so that every buffer begins at 0
        return CachedDecoder(self.engine, self.options)(audio, first_sample=0, **arguments)


def open_uncached(engine: Engine, tick: float) -> OnlineProcessor:
    """Return a stream that differs from the backend's own in having no decoder cache."""
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
    frames = cached.encoder_frames / 100
    print(
        f"a tick of {tick:g} s: {frames:.2f} frames for each new one (target "
        f"{MAX_FRAMES.get(tick, 5.0):g}), {cached.decoder_positions * tick:.0f} positions (target "
        f"{MAX_POSITIONS}), {cached.decoder_forwards * tick:.2f} forwards (target {MAX_FORWARDS})"
    )
    syncs = cached.host_syncs or 0.0  # both frameworks count them
    print(
        f"{syncs * tick:.2f} host syncs a tick (target {MAX_FORWARDS}), "
        f"{syncs * cached.audio_seconds / cached.committed:.2f} for each word committed"
    )
    print(
        f"{UNCACHED}: {uncached.encoder_frames / cached.encoder_frames:.1f}x the frames, "
        f"{uncached.decoder_positions / cached.decoder_positions:.1f}x the positions, "
        f"{uncached.decoder_forwards / cached.decoder_forwards:.1f}x the forwards, "
        f"{uncached.processor_seconds / cached.processor_seconds:.1f}x the processor time"
    )


def compare(minutes: float, tick: float, name: str) -> None:
    """Print both loops on one stream, and LocalAgreement beside them."""
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


def grow(minutes: int, name: str) -> None:
    """Print how work and state develop over a looped minute."""
    with load_backend(name, "digits") as backend:
        backend.warmup()
        print(f"{name} digits, {minutes} minutes, chunks of 1 s", flush=True)
        print_growth(backend.create_processor(language="en"), minutes)


def main() -> None:
    """Compare the loops, or measure growth."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each framework then uses one core
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of audio; 10 by default")
    parser.add_argument("--tick", type=float, default=1.0, help="seconds; 1 by default")
    parser.add_argument("--backend", action="append", help="one or both; both by default")
    parser.add_argument("--growth", action="store_true", help="minute by minute")
    arguments = parser.parse_args()
    for name in arguments.backend or ["qwen3-simul", "qwen3-mlx-simul"]:
        try:
            if arguments.growth:
                grow(round(arguments.minutes), name)
            else:
                compare(arguments.minutes, arguments.tick, name)
        except BackendUnavailable as error:
            print(f"left out: {error}")


if __name__ == "__main__":
    main()
