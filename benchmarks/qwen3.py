"""What a stream of Qwen3-ASR costs, against the same loop that does everything again."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import attrs
from digit_streams.growth import print_growth
from digit_streams.material import stream_of
from digit_streams.qwen3_sizes import print_latencies
from digit_streams.row import CHUNK_SECONDS, Row, measure, print_heading, print_row

from wlk_core import AttentionRecognizer, OnlineStream, load_backend
from wlk_core.errors import BackendUnavailable
from wlk_core.streaming import AlignAtt
from wlk_qwen3_simul.audio.frames import FRAME_SAMPLES, HOP
from wlk_qwen3_simul.simul.engine import StreamSettings
from wlk_qwen3_simul.simul.listener import Listener

if TYPE_CHECKING:
    from wlk_core import Attended, OnlineProcessor
    from wlk_qwen3_simul.backend import SimulBackend
    from wlk_qwen3_simul.simul.engine import Engine

MOST_FRAMES = {1.0: 5.0, 2.0: 2.8}  # mel frames encoded for each new one, by tick
MOST_POSITIONS = 140  # of the decoder, a tick
MOST_FORWARDS = 5  # one after another, a tick
BORDER, REWIND = 12, 100  # frames of 40 ms, the defaults of the backends
KEPT = "kept state"
AGAIN = "everything again"


@attrs.frozen
class Again:
    """An AttentionDecoder that keeps nothing: every call encodes and prefills all there is."""

    engine: Engine
    settings: StreamSettings

    def __call__(self, audio: Any, *, first_sample: int, **told: Any) -> Attended:
        """Listen with a fresh ear; see AttentionDecoder."""
        del first_sample  # without a past, every buffer begins at its beginning
        return Listener(self.engine, self.settings)(audio, first_sample=0, **told)


def open_loop(backend: SimulBackend, tick: float) -> OnlineProcessor:
    """Return a stream that differs from the backend's own in keeping nothing."""
    settings = StreamSettings(rewind_frames=REWIND)
    return OnlineStream(
        lambda: AttentionRecognizer(
            Again(backend.engine, settings),
            policy=AlignAtt(border_frames=BORDER, rewind_frames=REWIND),
            frame_samples=FRAME_SAMPLES,
            language="en",
            tick_seconds=tick,
            buffer_seconds=backend.engine.checkpoint.buffer_seconds,
            cut_samples=backend.engine.network.window_frames * HOP,
        )
    )


def print_targets(kept: Row, again: Row, tick: float) -> None:
    """Print what a tick costs beside what it may cost, and what the other loop takes."""
    frames = kept.encoder_frames / 100
    print(
        f"a tick of {tick:g} s: {frames:.2f} frames for each new one (target "
        f"{MOST_FRAMES.get(tick, 5.0):g}), {kept.decoder_positions * tick:.0f} positions (target "
        f"{MOST_POSITIONS}), {kept.decoder_forwards * tick:.2f} forwards (target {MOST_FORWARDS})"
    )
    syncs = kept.host_syncs or 0.0  # both engines count them
    print(
        f"{syncs * tick:.2f} host syncs a tick (target {MOST_FORWARDS}), "
        f"{syncs * kept.audio_seconds / kept.committed:.2f} for each word committed"
    )
    print(
        f"{AGAIN}: {again.encoder_frames / kept.encoder_frames:.1f}x the frames, "
        f"{again.decoder_positions / kept.decoder_positions:.1f}x the positions, "
        f"{again.decoder_forwards / kept.decoder_forwards:.1f}x the forwards, "
        f"{again.processor_seconds / kept.processor_seconds:.1f}x the processor time"
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
            KEPT: backend.create_processor(policy="alignatt", **options),
            AGAIN: open_loop(backend, tick),  # type: ignore[arg-type]  # of this distribution
            "local-agreement": backend.create_processor(policy="local-agreement", **options),
        }
        width = max(map(len, streams))
        print_heading(width)
        rows: dict[str, Row] = {}
        for label, stream in streams.items():
            rows[label] = measure(label, stream, material)
            print_row(rows[label], first=rows[KEPT], width=width)
            stream.close()
    print_targets(rows[KEPT], rows[AGAIN], tick)


def grow(minutes: int, name: str) -> None:
    """Print how work and state develop over a looped minute."""
    with load_backend(name, "digits") as backend:
        backend.warmup()
        print(f"{name} digits, {minutes} minutes, chunks of 1 s", flush=True)
        print_growth(backend.create_processor(language="en"), minutes)


def main() -> None:
    """Compare, look for growth, or time the real sizes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # engines then spend the time of one core each
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of audio; 10 by default")
    parser.add_argument("--tick", type=float, default=1.0, help="seconds; 1 by default")
    parser.add_argument("--backend", action="append", help="one or both; both by default")
    parser.add_argument("--growth", action="store_true", help="minute by minute")
    parser.add_argument(
        "--sizes",
        action="store_true",
        help="tick latency against buffer length at the real sizes, random weights, on torch",
    )
    parser.add_argument("--device", default="auto", help="(--sizes) cpu or cuda")
    arguments = parser.parse_args()
    if arguments.sizes:
        print_latencies(arguments.device)
        return
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
