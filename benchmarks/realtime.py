"""
Measure the cost of the network protocol: `realtime` against the same backend in this process.

A local wlk-serve runs the backend.  A stream in this process and one over the wire get the same
chunks in turn, so that a busy machine slows both.  The added latency of a call is the difference
between the two calls for the same chunk.  Processor time is that of this process during the calls
(client), and that of the server process, which has the model (server).  Linux only.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import attrs
import numpy as np
from serve_load.process import Process, free_port, run_server, wlk_command

from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core import load_backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_core import OnlineProcessor
    from wlk_core.backend import Backend

RATE = 16_000
MILLI = 1000.0


@attrs.define(kw_only=True)
class Side:
    """A stream, its words, and the durations of its calls in seconds."""

    stream: OnlineProcessor
    words: list[tuple[str, float, float]] = attrs.field(factory=list)
    seconds: list[float] = attrs.field(factory=list)
    cpu: float = 0.0  # processor seconds of this process

    def call(self, call: Callable[[], object]) -> None:
        """Make *call*, and record its words and its duration."""
        cpu, began = time.process_time(), time.perf_counter()
        emission = call()
        self.seconds.append(time.perf_counter() - began)
        self.cpu += time.process_time() - cpu
        self.words += words_of(emission)


def words_of(emission: object) -> list[tuple[str, float, float]]:
    """Return the committed words, with times rounded to milliseconds."""
    committed = emission.committed  # type: ignore[attr-defined]  # an Emission
    return [(token.text, round(token.start, 3), round(token.end, 3)) for token in committed]


def talk_of(seconds: float) -> NDArray[np.float32]:
    """Return coded audio: a word of 0.24 s about every 0.6 s."""
    rng = np.random.default_rng(0)
    cell, tokens = 2, []
    while cell * 0.08 < seconds - 1:
        tokens.append(CodedToken(int(rng.integers(1, 11)), cell, 3))
        cell += 3 + int(rng.integers(1, 8))
    return encode(tokens, cells=int(seconds / 0.08))


def audio_of(backend: str, seconds: float) -> NDArray[np.float32]:
    """Return audio that *backend* recognises."""
    if backend == "scripted":
        return talk_of(seconds)
    from streams import stream_of  # noqa: PLC0415 -- needs the recordings

    return stream_of(seconds).audio


def compare(
    local: Backend, remote: Backend, process: Process, arguments: argparse.Namespace
) -> None:
    """Print what the wire adds to the calls of one stream."""
    audio = audio_of(arguments.backend, arguments.seconds)
    sides = [Side(stream=each.create_processor()) for each in (local, remote)]
    server_start = process.cpu_seconds
    for chunk in partition(audio, arguments.chunk):
        for side in sides:
            side.stream.insert_audio_chunk(chunk)
            side.call(side.stream.process_iter)
    for side in sides:
        side.call(side.stream.finish)
    here, there = sides
    server = process.cpu_seconds - server_start
    added = list(np.array(there.seconds) - np.array(here.seconds))
    audio_seconds = len(audio) / RATE
    requests = remote.engine_calls.count  # type: ignore[attr-defined]  # a LoadedBackend
    print(
        f"{arguments.backend}, one stream of {audio_seconds:.0f} s, {len(added)} calls, chunks of "
        f"{arguments.chunk:g} s"
    )
    rows = {"in process": here.seconds, "over the wire": there.seconds, "added": added}
    for name, seconds in rows.items():
        p50, p99 = MILLI * np.percentile(seconds, 50), MILLI * np.percentile(seconds, 99)
        print(f"  {name:14} p50 {p50:7.2f}  p99 {p99:7.2f} ms")
    print(
        f"  cpu per audio second: in process {MILLI * here.cpu / audio_seconds:.2f} ms, client "
        f"{MILLI * there.cpu / audio_seconds:.2f} ms, server "
        f"{MILLI * server / audio_seconds:.2f} ms"
    )
    print(
        f"  counted: {requests / audio_seconds:.2f} requests and {4 * RATE * 4 / 3 / 1000:.0f} kB "
        f"of audio a second; work {'equal' if work(here) == work(there) else 'DIFFERS'}; words "
        f"{'equal' if here.words == there.words else 'DIFFER'} ({len(here.words)})",
        flush=True,
    )
    for side in sides:
        side.stream.close()


def work(side: Side) -> tuple[object, ...]:
    """Return the counters of the engine."""
    stats = side.stream.stats
    return stats.encoder_frames, stats.decoder_positions, stats.decoder_forwards


def main() -> None:
    """Print the figures of a backend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="scripted")
    parser.add_argument("--seconds", type=float, default=300.0, help="length of the stream")
    parser.add_argument("--chunk", type=float, default=0.5, help="seconds of audio per chunk")
    arguments = parser.parse_args()
    port = free_port()
    command = wlk_command(port, arguments.backend, "digits", [], "auto")
    with (
        load_backend(arguments.backend, "digits") as local,
        run_server(command, port, core=None) as server,
        load_backend("realtime", f"{server.address}/v1/realtime") as remote,
    ):
        local.warmup()
        remote.warmup()
        compare(local, remote, server, arguments)


if __name__ == "__main__":
    main()
